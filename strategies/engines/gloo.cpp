// Gloo by way of LibTorch's c10d: TCP between workers, sums on the CPU.
// Compiled where LibTorch has it and its headers are there (cmake/engines.cmake).
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "troupe/strategies/engines/c10d_engine.h"

namespace troupe::detail {

std::unique_ptr<Engine> make_gloo_engine(WorkerGroup& group) {
  using Gloo = c10d::ProcessGroupGloo;
  const auto connect = [&group](const c10::intrusive_ptr<GroupStore>& store) {
    auto options = Gloo::Options::create(backend_timeout(group));
    // Gloo would take the address of the machine's name, which may be another, or none.
    options->devices.push_back(Gloo::createDeviceForHostname(group.local_address()));
    options->threads = 1;  // one sum at a time
    return c10::make_intrusive<Gloo>(store, group.rank(), group.world_size(), options);
  };
  return std::make_unique<C10dEngine<Gloo>>(group, "gloo", Reach::host, connect);
}

}  // namespace troupe::detail
