#include "troupe/estimator/dry_run.h"

#include <torch/types.h>

#include <algorithm>
#include <filesystem>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/data/shard_plan.h"
#include "troupe/estimator/extenders.h"
#include "troupe/estimator/specs.h"
#include "troupe/hooks/make_datasets.h"
#include "troupe/hooks/todo.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/sharing_failure.h"
#include "troupe/train/checkpoint/checkpoint_room.h"
#include "troupe/train/checkpoint/checkpointer.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/example_checks.h"
#include "troupe/train/model_summary.h"
#include "troupe/train/schedule/averaged_weights.h"
#include "troupe/train/schedule/schedule.h"
#include "troupe/train/training_checks.h"
#include "troupe/train/training_limits.h"
#include "troupe/train/training_run.h"
#include "troupe/train/validation_watch.h"

namespace troupe {
namespace {

/// "Float [64, 1, 28, 28]; Long [64], 0 to 9": labels are seen by their range.
std::string describe(const Batch& batch) {
  std::vector<std::string> fields;
  for (const at::Tensor& field : batch.fields) {
    std::string one = text(field.scalar_type(), " ", field.sizes());
    if (at::isIntegralType(field.scalar_type(), /*includeBool=*/false) && field.numel() > 0) {
      one += text(", ", field.min().item<std::int64_t>(), " to ", field.max().item<std::int64_t>());
    }
    fields.push_back(std::move(one));
  }
  return join(fields, "; ");
}

/// The first batch of a split; null where there is none.
std::shared_ptr<const Dataset> first_batch(const std::shared_ptr<const Dataset>& split,
                                           std::int64_t batch) {
  return split == nullptr ? nullptr : first_of(split, batch);
}

/// Parameters that an optimiser has, and that the step gave no gradient.
std::vector<std::string> without_gradient(Replica& replica) {
  std::vector<std::string> names;
  const auto rows = parameter_rows(replica);
  const auto parameters = replica.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (rows[i].trained && !parameters[i].second.grad().defined()) names.push_back(rows[i].name);
  }
  return names;
}

std::string losses_of(const Report& report) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : report.losses) parts.push_back(text(name, " = ", value));
  for (const MetricValue& metric : report.metrics) {
    parts.push_back(text(metric.name, " = ", metric.value));
  }
  return join(parts);
}

}  // namespace

template <class Body>
void DryRun::check(const std::string& what, Body&& body) try {
  detail::sharing_failure(*strategy_, body);
} catch (const std::exception&) {
  log_error("dry run: ", what, " failed, at step ", state_.step, "; the error follows");
  throw;
}

template <class... Parts>
void DryRun::say(const Parts&... parts) const {
  if (strategy_->is_chief()) log_info("dry run: ", parts...);
}

void DryRun::run(const Callbacks& callbacks) {
  check_directories();
  strategy_ = make_strategy(options_.strategy);
  state_ = strategy_->create_state(hooks_, train().seed);
  const auto totals = total(parameter_rows(*state_.replicas.front()));
  say("create_model: ", totals.trained, " values to train, ", totals.frozen, " frozen, ",
      totals.buffers, " in buffers; ", strategy_->world_size(),
      strategy_->world_size() == 1 ? " worker, " : " workers, ",
      strategy_->view().replicas_in_sync(),
      strategy_->view().replicas_in_sync() == 1 ? " replica in sync" : " replicas in sync");
  check("create_datasets", [&] { make_data(); });
  check("the options of training",
        [&] { detail::check_training(*strategy_, state_, data_, train_options(), callbacks); });
  check("resuming", [&] { resume(); });
  check("the first step", [&] { take_step(callbacks); });
  evaluate_splits();
  check("predict_step", [&] { predict_one(); });
  check("room for checkpoints", [&] { check_disk(); });
  strategy_->close();
  say("all of this holds; nothing was trained, and nothing is left behind");
}

void DryRun::check_directories() const {
  if (!train().model_dir.empty()) {
    check_writable(train().model_dir, "--model-dir");
    log_info("dry run: --model-dir ", train().model_dir, " can be written");
  }
  if (train().metrics_file.empty()) return;
  check_writable(std::filesystem::absolute(train().metrics_file).parent_path(),
                 "the folder of --metrics-file");
}

void DryRun::make_data() {
  splits_ = detail::make_datasets(hooks_, train().seed);
  data_ = strategy_->distribute(splits_, train().batches());
  if (!data_.train) return;  // check_training refuses it
  const std::string unknown = "an unknown number of";
  const auto count = [&](const auto& data) {
    const std::int64_t examples = data ? data->examples() : 0;
    return examples == kUnknownSize ? unknown : text(examples);
  };
  const auto steps = data_.train->steps_per_epoch();
  const Sampler& sampler = data_.train->plan().options().sampler;
  say("create_datasets: ", count(data_.train), " training examples, ",
      steps ? text(*steps) : unknown, " steps of ", train().batch_size, " an epoch, ", sampler.name,
      sampler.repeats ? " (an example may be read several times or never); " : "; ",
      count(data_.validation), " to validate, ", count(data_.test), " to test with");
  const std::string small = detail::smallest_share(state_, *data_.train, detail::Smallest::any);
  if (!small.empty()) say(small);
  if (steps && data_.train->examples() < train().batch_size && strategy_->is_chief()) {
    log_warning("--batch-size is ", train().batch_size, ", more than there are training examples");
  }
}

void DryRun::resume() {
  const Pace::Counts counts = strategy_->pace().counts(*data_.train);
  identity_ = identity_of(*data_.train, train(), counts.updates_per_step);
  // As a TrainingRun does before it restores.
  if (is_scheduled(train().schedule)) detail::remember_rates(state_);
  keep_averages(state_, train().ema_decay);
  if (train().model_dir.empty() || !strategy_->pace().coordinates()) return;
  if (!restore_newest(*strategy_, state_, identity_, train())) {
    say("no checkpoint in ", train().model_dir, ": training would start at step 0");
    return;
  }
  first_step_ = state_.step;
  say("training would resume at step ", state_.step, ", step ", state_.position.step, " of epoch ",
      state_.position.epoch + 1);
  if (detail::TrainingLimits(train(), state_.step, counts).reached(state_)) {
    say("and end at once: its limits are reached");
  }
}

/// A training of one update of every worker, of which nothing is written.
void DryRun::take_step(const Callbacks& callbacks) {
  const Pace::Counts counts = strategy_->pace().counts(*data_.train);
  TrainOptions one = train_options();
  if (!one.model_dir.empty()) one.warm_start = {};  // resume() has seen to it
  one.model_dir.clear();
  one.metrics_file.clear();
  one.progress = false;
  one.log_every = 0;
  one.profile_steps = 0;
  one.check_weights_every = 1;
  one.best.reset();
  one.early_stopping.clear();
  one.epochs.reset();
  one.steps.reset();
  one.max_steps = state_.step + counts.updates_per_step;
  Callbacks only;
  only.rate_factor = callbacks.rate_factor;
  TrainingRun training(*strategy_, hooks_, state_, data_, one, std::move(only));
  std::string batch_seen;
  for (auto& epoch : training.epochs()) {
    for (const auto& batch : epoch) {
      batch_seen = describe(batch.replicas.front());
      training.train_step(batch);
    }
  }
  const History history = training.finish();
  if (history.steps == 0) {
    log_info("dry run: train_step: the other workers were faster, this one has not called it");
    return;
  }
  const auto missing = without_gradient(*state_.replicas.front());
  log_info("dry run: train_step: ", losses_of(*history.train), " in ", history.seconds,
           " s on this worker's ", batch_seen);
  if (missing.empty() || !strategy_->is_chief()) return;
  log_warning("dry run: the first step gave no gradient to ", join(missing),
              ": nothing trains them unless later steps do");
}

void DryRun::evaluate_splits() {
  const Splits firsts{nullptr, first_batch(splits_.validation, train().batch_size),
                      first_batch(splits_.test, train().batch_size)};
  DistributedSplits one;
  check("the data of evaluations", [&] { one = strategy_->distribute(firsts, train().batches()); });
  if (!strategy_->pace().coordinates()) return;
  if (one.validation) {
    check("validation_step", [&] {
      const Report report =
          evaluate(*strategy_, hooks_, state_, *one.validation, Phase::validation);
      say("validation_step: ", losses_of(report));
      if (options_.mode == Mode::train) {
        detail::ValidationWatch(train(), state_, true).check(report);
        for (const StopRule& rule : train().early_stopping) {
          say("--early-stopping ", to_text(rule), ": validations have it");
        }
        if (train().best) say("--best ", to_text(*train().best), ": validations have it");
      }
      if (train().schedule.kind != Schedule::plateau) return;
      LearningRateSchedule(train().schedule, state_).observe(report);
      say("--plateau ", train().schedule.metric, ": validations have it");
    });
  }
  if (one.test) {
    check("test_step", [&] {
      say("test_step: ", losses_of(evaluate(*strategy_, hooks_, state_, *one.test, Phase::test)));
    });
  }
}

/// By itself training does not need it: one that says that it is not there is told of.
void DryRun::predict_one() {
  const auto& all = splits_.test         ? splits_.test
                    : splits_.validation ? splits_.validation
                                         : splits_.train;
  const std::int64_t examples = std::min(all->size(), train().batch_size);
  const auto split = detail::split_fields(all->get(torch::arange(examples)), feature_names_);
  std::vector<at::Tensor> fields;
  for (const auto& [name, field] : split.features) fields.push_back(field);
  const auto say_missing = [&](const Error& error) {
    say("predict_step: ", error.cause(), " --mode predict and export need it");
  };
  try {
    const auto predictions =
        predict(hooks_, state_, std::make_shared<TensorDataset>(fields), examples);
    std::vector<std::string> outputs;
    for (const auto& [name, value] : predictions.front()) {
      outputs.push_back(text(name, " ", value.sizes()));
    }
    say("predict_step: ", join(outputs));
  } catch (const ConfigError& error) {
    say_missing(error);
  } catch (const TodoError& error) {
    say_missing(error);
  }
}

void DryRun::check_disk() {
  if (train().model_dir.empty() || !strategy_->pace().coordinates()) return;
  const RunSnapshot snapshot = capture(*strategy_, state_, identity_);
  if (!strategy_->is_chief()) return;
  std::int64_t bytes = 0;
  for (const auto& [name, tensors] : snapshot.files) {
    for (const auto& [of, tensor] : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  TrainState start;  // the limits count from where training would start
  start.step = first_step_;
  const detail::TrainingLimits limits(train(), start.step, strategy_->pace().counts(*data_.train));
  const std::int64_t count = checkpoints_ahead(train(), first_step_, limits.last_step());
  const std::uint64_t free = free_bytes(train().model_dir);
  check_room(train().model_dir, bytes, count, free);
  say("room for ", count, count == 1 ? " checkpoint of " : " checkpoints of ",
      megabytes(static_cast<double>(bytes)), " in ", train().model_dir, ": ",
      megabytes(static_cast<double>(free)), " are free");
}

}  // namespace troupe
