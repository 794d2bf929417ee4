// Admission: how a worker that comes to a run under way gets its state. At the edge of a step the
// chief copies what a checkpoint would hold, every worker receives it, and the one that has come
// resumes from it, in memory, as it would from a file. The others change nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "strategies/strategy.h"
#include "train/checkpoint/run_snapshot.h"

namespace troupe::detail {

/// What a run knows beside what a checkpoint holds.
struct RunUnderWay {
  std::int64_t began_at = 0;               // the step from which options.steps count
  std::optional<std::int64_t> saved_step;  // of the newest checkpoint
};

/// What those that hold the state do for those that come.
/// Collective: yes, with take_run() on the others.  Throws: as capture(); NetError.
void share_run(Strategy& strategy, const TrainState& state, const DataIdentity& data,
               const RunUnderWay& run);
/// Throws: as restore(); NetError.
[[nodiscard]] RunUnderWay take_run(Strategy& strategy, TrainState& state, const DataIdentity& data);

}  // namespace troupe::detail
