#include "strategies/parameter_hash.h"

#include "core/sha256.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"
#include "strategies/weight_comparison.h"

namespace troupe {

std::string parameter_hash(const Replica& replica) {
  Sha256 digest;
  for (const NamedTensor& tensor : detail::state_of(replica)) {
    digest.update(
        text(tensor.first, " ", tensor.second.scalar_type(), " ", tensor.second.sizes(), "\n"));
    digest.update(detail::host_bytes(tensor.second.detach().to(at::kCPU).contiguous()));
  }
  return digest.hex();
}

std::string common_parameter_hash(Strategy& strategy, const TrainState& state) {
  detail::Copies copies{"weights", {}};
  for (const auto& replica : state.replicas) copies.lists.push_back(detail::state_of(*replica));
  detail::compare_copies(strategy, copies, text("after step ", state.step));
  return parameter_hash(*state.replicas.front());
}

}  // namespace troupe
