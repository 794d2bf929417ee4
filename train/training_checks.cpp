#include "troupe/train/training_checks.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/schedule/schedule.h"
#include "troupe/train/schedule/schedule_factor.h"

namespace troupe::detail {
namespace {

void check_length(const DistributedSplits& data, const TrainOptions& options) {
  if (data.train && data.train->examples() > 0 &&
      data.train->steps_per_epoch() == std::int64_t{0}) {
    throw ConfigError(
        text("there are ", data.train->examples(), " training examples, fewer than a batch of ",
             data.train->global_batch_size(), ", and --drop-last leaves a short batch out."),
        "lower --batch-size, or leave --drop-last out.");
  }
  if (!data.train || data.train->steps_per_epoch() == std::int64_t{0}) {
    throw ConfigError("there is no training data.",
                      "return a training split with examples from create_datasets.");
  }
  if (options.steps && options.max_steps) {
    throw ConfigError("steps and max_steps are both given.",
                      "keep max_steps, the last step of the whole training, or steps, how many "
                      "more.");
  }
  if ((options.steps && *options.steps < 1) || (options.max_steps && *options.max_steps < 1)) {
    throw ConfigError("steps or max_steps is below 1.", "give a number of at least 1.");
  }
}

void check_pace(const Pace& pace, const TrainOptions& options) {
  if (options.ema_decay > 0) pace.require(Pace::Need::every_update, "--ema-decay");
  if (options.schedule.kind == Schedule::plateau) {
    pace.require(Pace::Need::shared_validation, "the plateau schedule");
  }
  if (options.schedule.kind == Schedule::cosine && options.schedule.decay_steps == 0 &&
      options.steps) {
    pace.require(Pace::Need::last_step, "the cosine schedule with steps");
  }
}

void check_learning(const DistributedSplits& data, const TrainOptions& options,
                    const RateFactor& factor) {
  validate(options.schedule);
  if (factor && is_scheduled(options.schedule)) {
    throw ConfigError("the options and the callbacks both bring a learning rate schedule.",
                      "leave --lr-schedule and --warmup-steps out, or Callbacks::rate_factor.");
  }
  if (options.schedule.kind == Schedule::plateau && !data.validation) {
    throw ConfigError("--lr-schedule plateau has no validation to look at.",
                      "return a validation split from create_datasets, or use another schedule.");
  }
}

/// A tensor of a replica's own is saved and resumed where the replica stays what it is.
void check_own_tensors(Strategy& strategy, const TrainState& state) {
  // Refused later: a state without replicas.
  if (state.replicas.empty() || ReplicaDriver(*state.replicas.front()).own_tensors().empty())
    return;
  const std::string& name = ReplicaDriver(*state.replicas.front()).own_tensors().front().first;
  const auto refuse = [&](const char* where) {
    throw ConfigError(text("create_model added \"", name, "\" by add_own, and ", where, "."),
                      "train in one process, or with --strategy mirrored or multi-worker; or let "
                      "the step make it from the batch.");
  };
  if (strategy.virtual_replicas() > 0) refuse("virtual replicas share the replicas they run on");
  if (strategy.elastic() != nullptr) refuse("in an elastic group a lost worker's would be lost");
  if (strategy.pace().voices() < strategy.world_size()) {
    refuse("with parameter servers a checkpoint has the chief's alone");
  }
}

/// What the loop's validations are to decide.
void check_watched(const DistributedSplits& data, const TrainOptions& options) {
  if (!options.best && options.early_stopping.empty()) return;
  if (!data.validation) {
    throw ConfigError(text(options.best ? "--best" : "--early-stopping",
                           " is given, and there is no validation to go by."),
                      "return a validation split from create_datasets, or leave it out.");
  }
  if (!options.best || (!options.model_dir.empty() && !checkpoint_cadence(options).never())) return;
  throw ConfigError("--best is given, and no checkpoint is saved.",
                    "set --model-dir, and --save-every above 0, or leave it out.");
}

}  // namespace

void check_training(Strategy& strategy, const TrainState& state, const DistributedSplits& data,
                    const TrainOptions& options, const Callbacks& callbacks) {
  options.validate();
  if (options.dry_run) {
    throw ConfigError("--dry-run is given, but this program trains without asking for it.",
                      "let main ask troupe::Job, whose done_without_training() carries it out, as "
                      "template/main.cpp does.");
  }
  check_length(data, options);
  check_pace(strategy.pace(), options);
  check_own_tensors(strategy, state);
  (void)strategy.pace().counts(*data.train);  // it knows whether every worker has examples
  check_learning(data, options, callbacks.rate_factor);
  if (!callbacks.evaluates_checkpoints) check_watched(data, options);
}

void check_step(const TrainState& state, const std::vector<StepResult>& results, bool is_first) {
  if (results.front().losses.empty()) {
    throw ConfigError("the training step returned no loss.", "return the loss of the batch.");
  }
  const auto& replicas = state.replicas;
  if (!is_first || replicas.front()->optimizer_names().empty()) return;
  const bool updated = std::all_of(replicas.begin(), replicas.end(), [](const auto& replica) {
    return ReplicaDriver(*replica).has_updated();
  });
  if (updated) return;
  throw ConfigError(
      "the first step has applied no optimiser: train_step did not call apply_gradients.",
      "call replica.apply_gradients(loss) in train_step; the first step of a training must apply "
      "at "
      "least one optimiser: of updates every third step, take steps 0, 3, 6.");
}

}  // namespace troupe::detail
