// Whether all replicas of all workers still hold alike what they are to hold alike: compared every
// so many steps, before a save, and before a hash of the parameters is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// Replicas that are to hold the same weights hold different ones. Raised on every worker alike.
/// The group is worth another start from the newest checkpoint, which holds what all agreed on.
class WeightsDiffer final : public NetError {
 public:
  using NetError::NetError;
  [[nodiscard]] const char* kind() const noexcept override { return "weights-differ"; }
};

namespace detail {

/// Lists of tensors that are to have the same bits. Each worker brings as many.
struct Copies {
  const char* what;                             // "weights": what a sentence calls them
  std::vector<std::vector<NamedTensor>> lists;  // this worker's, by replica
};

/// Compares digests of all copies: reads each byte once, and gathers 16 bytes of each copy. Changes
/// nothing. `when` and `saved` are for the error: "after step 12", and what is saved of it.
/// Collective: yes.  Blocks: as Strategy::gather.  Throws: WeightsDiffer on every worker, naming
/// the copies that differ from more than half of all, or all where no such half agrees.
void compare_copies(Strategy& strategy, const Copies& copies, const std::string& when,
                    const std::string& saved = "");

/// What the chief has copied of its first replica to save it; empty on other workers.
struct Captured {
  std::vector<NamedTensor> weights;
  std::vector<NamedTensor> others;  // averaged weights and the optimisers' state
};

/// Compares the weights of all replicas of all workers while they train; a replica that is alone is
/// equal to itself. Buffers are not compared: each replica has its own meanwhile. `saved`: the step
/// of the newest checkpoint, for the error. With `captured`, before it is written: the copy stands
/// for the chief's first replica, and what the chief saves for all is compared, too.
/// Collective: yes.  Throws: WeightsDiffer on every worker.
void check_weights(Strategy& strategy, const TrainState& state, std::optional<std::int64_t> saved,
                   const Captured* captured = nullptr);

}  // namespace detail

// A fingerprint of the weights: equal on all replicas, or something is wrong.

/// SHA-256 over name, dtype, shape and bytes of every parameter, then every buffer, in order.
[[nodiscard]] std::string parameter_hash(const Replica& replica);

/// That of the weights that all replicas of all workers hold; they are compared first.
/// Collective: yes.  Throws: WeightsDiffer on every rank.
[[nodiscard]] std::string common_parameter_hash(Strategy& strategy, const TrainState& state);

}  // namespace troupe
