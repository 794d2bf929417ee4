#include "troupe/strategies/kinds/parameter_hash.h"

#include "troupe/core/sha256.h"
#include "troupe/core/text.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/strategies/replicas/local_replicas.h"

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
