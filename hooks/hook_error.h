// Where a step hook was called, for the message of what it throws: which hook, after which step, on
// which replica and what batch.
#pragma once

#include <cstdint>
#include <string>

#include "troupe/core/user_code.h"
#include "troupe/data/batch.h"
#include "troupe/hooks/phase.h"

namespace troupe::detail {

/// "train_step"
[[nodiscard]] const char* hook_of(Phase phase);

/// "train_step failed after 12 steps of training, on a batch of [4, 2], [4] (examples 3, 17, 4, 9),
/// replica 1 of 2". `share`: which of the batch's, for a replica of so many.
[[nodiscard]] std::string describe_call(Phase phase, std::int64_t steps,
                                        const DistributedBatch& batch, std::size_t share,
                                        int replicas);

/// What to do about an error of LibTorch's, by what the batch, which is on the host, holds.
[[nodiscard]] FixOf fix_for(const Batch& batch);

}  // namespace troupe::detail
