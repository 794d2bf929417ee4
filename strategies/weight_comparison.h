// Comparing what all replicas of all workers are to hold alike.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "strategies/strategy.h"

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

}  // namespace detail
}  // namespace troupe
