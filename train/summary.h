// The end of a run: the workers compare their weights, the chief says what came out.
#pragma once

#include <optional>

#include "options/train_options.h"
#include "strategies/strategy.h"
#include "train/loop.h"
#include "train/report.h"

namespace troupe {

/// Compares the weights of all workers and prints the results on the chief: lines for people on
/// stderr, and with options.json_summary one JSON object as the last line of stdout, with strategy,
/// world_size, replicas, global_batch_size, global_step, epochs, seconds, examples_per_sec, train,
/// validation, test, parameter_hash. With parameter servers train, seconds and examples_per_sec are
/// of the chief's own batches, the other workers say nothing, and an object parameter_servers holds
/// what was counted over all workers: see docs/parameter_servers.md.
/// Collective: yes.  Throws: DesyncError when weights differ between workers.
void summarize(Strategy& strategy, const TrainState& state, const History& history,
               const std::optional<Report>& test, const TrainOptions& options);

}  // namespace troupe
