// The usual training loop, over TrainingRun, and the end of a run: the workers compare their
// weights, and the chief reports the results.
#pragma once

#include <optional>

#include "troupe/core/options/train_options.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe {

/// Trains from the step in `state` until options.epochs are complete, options.max_steps reached,
/// options.steps taken, or an action or a listener requests a stop; validates after every epoch if
/// there is validation data. The order of examples depends only on seed and epoch. With
/// options.model_dir it resumes from the newest checkpoint there, bit for bit as if it had never
/// stopped, saves as the options say, and the chief writes summaries; SIGTERM, SIGINT or SIGHUP
/// then ends it after a save. If workers go at their own pace (parameter servers), steps are
/// counted over all workers and only they end training, even if the limit is in epochs; the chief
/// ends training for all, but a stop that another worker's action requests ends only that worker.
/// The actions that the options request (on the chief: log, metrics file, progress bar, summaries)
/// come first. Learning rates follow options.schedule, and with options.ema_decay the validations
/// use averaged weights (docs/learning_rate.md). A custom loop gets the same from a TrainingRun.
/// Collective: yes.  Throws: as TrainingRun and its verbs.
History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Callbacks callbacks = {});

/// Compares the weights of all workers and prints the results on the chief: readable lines on
/// stderr, and with options.json_summary one JSON object as the last line of stdout, with strategy,
/// world_size, replicas, global_batch_size, global_step, epochs, seconds, examples_per_sec, train,
/// validation, test, parameter_hash. With parameter servers train, seconds and examples_per_sec are
/// of the chief's own batches, the other workers print nothing, and an object parameter_servers
/// holds the counts over all workers: see docs/parameter_servers.md.
/// Collective: yes.  Throws: WeightsDiffer if weights differ between replicas.
void summarize(Strategy& strategy, const TrainState& state, const History& history,
               const std::optional<Report>& test, const TrainOptions& options);

}  // namespace troupe
