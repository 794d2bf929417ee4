#include "strategies/parameter_hash.h"

#include "core/sha256.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"

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
  std::string mine;
  for (const auto& replica : state.replicas) mine += parameter_hash(*replica);
  const std::size_t length = mine.size() / state.replicas.size();
  std::string all;  // one after the other, by replica over all workers
  for (const std::string& worker : strategy.gather(mine)) all += worker;
  const std::string chiefs = all.substr(0, length);
  for (std::size_t i = 1; i * length < all.size(); ++i) {
    const std::string hash = all.substr(i * length, length);
    if (hash == chiefs) continue;
    const std::size_t rank = i / state.replicas.size();
    detail::fail_alike(
        strategy,
        DesyncError(text("the weights of replica ", i, " (rank ", rank, ", ", hash.substr(0, 12),
                         ") differ from the chief's (", chiefs.substr(0, 12), ")."),
                    "look in the hooks for a change of weights that depends on the replica or "
                    "happens outside apply_gradients."));
  }
  return chiefs;
}

}  // namespace troupe
