// NCCL by way of LibTorch's c10d: sums between GPUs, without host memory in between.
// Compiled if LibTorch has it (cmake/engines.cmake), as pip's has. TODO(T-006): it has never run.
// Everything that could be shared
// is in c10d_engine.h and group_store.cpp, which gloo.cpp and late_device_test.cpp use and test.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "troupe/strategies/engines/c10d_engine.h"

namespace troupe::detail {

std::unique_ptr<Engine> make_nccl_engine(WorkerGroup& group) {
  using Nccl = c10d::ProcessGroupNCCL;
  const auto connect = [&group](const c10::intrusive_ptr<GroupStore>& store) {
    auto options = Nccl::Options::create();
    options->timeout = backend_timeout(group);
    return c10::make_intrusive<Nccl>(store, group.rank(), group.world_size(), options);
  };
  return std::make_unique<C10dEngine<Nccl>>(group, "nccl", Reach::device, connect);
}

}  // namespace troupe::detail
