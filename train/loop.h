// The training loop.
#pragma once

#include <optional>
#include <string>

#include "options/train_options.h"
#include "strategies/strategy.h"
#include "train/callbacks/periodic_action.h"
#include "train/checkpoint/saving_listener.h"
#include "train/learning/schedule.h"
#include "train/report.h"

namespace troupe {

/// What a run of train() came to; equal on every worker but for the seconds and the reason. Without
/// lockstep everything is this worker's own, and the chief alone validates.
struct History {
  std::int64_t epochs = 0;           // complete ones
  std::int64_t steps = 0;            // of this run
  std::int64_t examples = 0;         // of this run, over all workers
  double seconds = 0;                // of training; validation not counted
  std::optional<Report> train;       // of the last epoch, complete or not
  std::optional<Report> validation;  // of the last validation
  std::string reason;                // why it ended: "max_steps 600 is reached"
};

/// What happens around the steps, beside what the options ask for.
struct Companions {
  Actions actions;            // on every worker the same list
  SavingListeners listeners;  // told on the chief only
  /// Of the learning rate, instead of options.schedule; the same on every worker. Null: none.
  RateFactor rate_factor = nullptr;
};

/// Trains from where `state` stands until options.epochs are complete, options.max_steps reached,
/// options.steps taken, or an action or a listener asks to stop; validates after every epoch where
/// there is validation data. The order of examples is a function of seed and epoch alone. With
/// options.model_dir it goes on from the newest checkpoint there, bit for bit as if it had never
/// stopped, saves as the options say, and the chief writes summaries; SIGTERM then ends it after a
/// save. Without lockstep (parameter servers) steps are counted over all workers and alone end
/// training, also where the limit is epochs; the chief's end is everybody's, and a stop that
/// another worker's action asks for ends that worker. The actions that the options ask for (on the
/// chief: log, metrics file, progress bar, summaries) come first. Learning rates follow
/// options.schedule, and with options.ema_decay the validations use averaged weights
/// (docs/learning_rate.md).
/// Collective: yes.  Throws: ConfigError without training data, with both steps and max_steps, or
/// for a schedule that is wrong or has no validation data to look at;
/// CheckpointError; NonFiniteError; Stopped after SIGTERM; what hooks and group throw.
History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options,
              Companions companions = {});

}  // namespace troupe
