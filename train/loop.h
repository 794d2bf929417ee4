// The training loop.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "strategies/strategy.h"
#include "train/options.h"
#include "train/periodic_action.h"
#include "train/report.h"

namespace troupe {

/// What a run of train() came to; equal on every worker but for the seconds.
struct History {
  std::int64_t epochs = 0;           // complete ones
  std::int64_t steps = 0;            // of this run
  std::int64_t examples = 0;         // of this run, over all workers
  double seconds = 0;                // of training; validation not counted
  std::optional<Report> train;       // of the last epoch, complete or not
  std::optional<Report> validation;  // of the last validation
};

using Actions = std::vector<std::unique_ptr<PeriodicAction>>;

/// Trains from where `state` stands until options.epochs are complete or options.max_steps reached,
/// whichever is first; validates after every epoch. The order of examples is a function of seed and
/// epoch alone. With options.model_dir it goes on from the newest checkpoint there, bit for bit as
/// if it had never stopped, and saves as the options say; SIGTERM then ends it after a save.
/// `actions` come after the ones that the options ask for (on the chief: log, metrics file,
/// progress bar). Collective: yes.  Throws: ConfigError without training data; CheckpointError;
/// Stopped after SIGTERM; what hooks and group throw.
History train(Strategy& strategy, const Hooks& hooks, TrainState& state,
              const DistributedSplits& data, const TrainOptions& options, Actions actions = {});

}  // namespace troupe
