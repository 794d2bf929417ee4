#include "strategies/parameter_hash.h"

#include "core/sha256.h"
#include "core/text.h"
#include "strategies/tensor_bytes.h"

namespace troupe {

std::string parameter_hash(const Replica& replica) {
  std::vector<NamedTensor> tensors = replica.parameters();
  const std::vector<NamedTensor> buffers = replica.buffers();
  tensors.insert(tensors.end(), buffers.begin(), buffers.end());
  Sha256 digest;
  for (const NamedTensor& tensor : tensors) {
    digest.update(
        text(tensor.first, " ", tensor.second.scalar_type(), " ", tensor.second.sizes(), "\n"));
    const std::vector<std::byte> bytes = detail::pack({tensor});
    digest.update(Span<const std::byte>(bytes));
  }
  return digest.hex();
}

std::string common_parameter_hash(Strategy& strategy, const TrainState& state) {
  const std::vector<std::string> hashes = strategy.gather(parameter_hash(*state.replicas.front()));
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw DesyncError(text("the weights of rank ", rank, " (", hashes[rank].substr(0, 12),
                           ") differ from the chief's (", hashes[0].substr(0, 12), ")."),
                      "look in the hooks for a change of weights that depends on the rank or "
                      "happens outside apply_gradients.");
  }
  return hashes[0];
}

}  // namespace troupe
