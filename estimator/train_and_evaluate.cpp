#include "troupe/estimator/train_and_evaluate.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/core/options/checkpoint_cadence.h"
#include "troupe/core/text.h"
#include "troupe/estimator/evaluated_training.h"
#include "troupe/estimator/evaluation_pass.h"
#include "troupe/export/exporting_job.h"
#include "troupe/strategies/parameter_server/parameter_server.h"
#include "troupe/train/callbacks/early_stopping.h"
#include "troupe/train/callbacks/stop_rules.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/evaluation/evaluator.h"

namespace troupe {

/// An estimator and a specification, as the roles want them.
class EstimatorJob final : public ExportingJob {
 public:
  EstimatorJob(Estimator& estimator, const EvalSpec& spec)
      : ExportingJob(estimator.config().model_dir, estimator.evaluation_directory(spec.name),
                     spec.exporters),
        estimator_(estimator),
        spec_(spec),
        files_(estimator.config().model_dir) {}

  /// Looked up anew only when the index has changed: the evaluator asks every second, and what is
  /// wrong with a checkpoint is to be told once.
  [[nodiscard]] std::optional<std::string> latest_checkpoint() override {
    if (index_.has_changed()) latest_ = estimator_.latest_checkpoint();
    return latest_;
  }
  [[nodiscard]] std::optional<Finished> finished() override { return markers_.read(); }
  /// In a group, whose evaluator may have been started by hand. Alone, where two are at work both
  /// evaluate, which is told.
  [[nodiscard]] bool is_anothers() override {
    return estimator_.options().strategy.cluster.world_size() > 1 &&
           evaluator_is_present(estimator_.config().model_dir);
  }
  /// What the workers have come to together, for the next evaluation of this checkpoint.
  void take(const std::string& checkpoint, Evaluation evaluation) {
    together_.emplace(checkpoint, std::move(evaluation));
  }

 private:
  [[nodiscard]] Evaluation evaluate_checkpoint(const std::string& checkpoint, bool again) override {
    EvaluateCall call = spec_;
    call.checkpoint = checkpoint;
    call.is_repeated = again;
    if (together_ && together_->first == checkpoint) {
      call.known = std::exchange(together_, std::nullopt)->second;
    } else {
      call.is_trainings_data = !std::exchange(data_is_checked_, true);
    }
    return estimator_.evaluate(call);
  }
  [[nodiscard]] std::function<void(const std::string&)> model_writer(
      const std::string& checkpoint, std::optional<ExportFormat> format) override {
    return estimator_.model_writer(checkpoint, format);
  }

  Estimator& estimator_;
  const EvalSpec& spec_;
  PosixFileSystem files_;
  MarkerReader markers_{files_, steady_clock()};
  WatchedFile index_{files_, kIndexName, kMaxManifestBytes};
  std::optional<std::string> latest_;
  bool data_is_checked_ = false;
  std::optional<std::pair<std::string, Evaluation>> together_;  // by its checkpoint
};

namespace {

TrainAndEvaluateResult to_result(const std::optional<EvaluationRound>& last) {
  if (!last) return {};
  return {last->evaluation, last->exports};
}

/// Takes a former run's marker away when training begins: the chief has the directory's lock then.
class MarkerRemoval final : public PeriodicAction {
 public:
  explicit MarkerRemoval(const std::string& model_dir) : files_(model_dir) {}
  [[nodiscard]] bool chief_only() const override { return true; }
  void ready(RunControl& /*run*/) override { clear_finished(files_); }
  void after_step(const StepReport& /*report*/, RunControl& /*run*/) override {}

 private:
  PosixFileSystem files_;
};

}  // namespace

EvaluatedTraining::EvaluatedTraining(Estimator& estimator, TrainSpec train_spec, EvalSpec eval_spec)
    : estimator_(estimator), train_spec_(std::move(train_spec)), eval_spec_(std::move(eval_spec)) {
  eval_spec_.validate();
  train_spec_.validate();
  const Cluster& cluster = estimator.options().strategy.cluster;
  if (!cluster.is_evaluator() && checkpoint_cadence(estimator.config()).never()) {
    throw ConfigError(
        "train_and_evaluate needs a checkpoint saver, and checkpoints are switched "
        "off.",
        "set save_checkpoints_steps or save_checkpoints_secs above 0.");
  }
  job_ = std::make_unique<EstimatorJob>(estimator_, eval_spec_);
  if (cluster.is_chief()) rules_ = known_rules();
  if (eval_spec_.exporters.empty() || cluster.rank > 0 || cluster.is_server()) return;
  try {
    estimator_.check_exportable(eval_spec_.exporters);
  } catch (const ConfigError& error) {
    throw ConfigError(text("exports would fail: ", error.cause()),
                      text(error.fix(), " Or export nothing: --exporter none."));
  }
}

EvaluatedTraining::~EvaluatedTraining() = default;

std::vector<StopRule> EvaluatedTraining::known_rules() {
  std::vector<StopRule> rules = estimator_.options().train.early_stopping;
  if (rules.empty()) return rules;
  const Evaluation evaluation = estimator_.evaluate_two();
  for (StopRule& rule : rules) {
    auto& [metric, better] = rule.by;
    const auto known = evaluation.better.find(metric);
    if (known == evaluation.better.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : evaluation.metrics) names.push_back(name);
      throw ConfigError(text("--early-stopping ", to_text(rule), " names the metric \"", metric,
                             "\", which evaluations do not have."),
                        text("name one of: ", join(names), "."));
    }
    if (better == Better::unknown) better = known->second;
  }
  return rules;
}

/// Evaluations come with checkpoints, so that is how often there is news.
std::shared_ptr<PeriodicAction> EvaluatedTraining::early_stopping() {
  constexpr double kEarlyStopSeconds = 60;
  const CheckpointCadence cadence = checkpoint_cadence(estimator_.config());
  const auto reason = [this]() -> std::optional<std::string> {
    if (rules_.empty()) rules_ = known_rules();  // of a group that has lost its chief
    const ScalarHistory history = read_scalars(estimator_.evaluation_directory(eval_spec_.name));
    for (const StopRule& rule : rules_) {
      if (auto found = stop_reason(rule, history, estimator_.config().min_steps)) return found;
    }
    return std::nullopt;
  };
  return make_early_stopping(
      reason, cadence.steps ? Every::n_steps(*cadence.steps) : Every::n_seconds(kEarlyStopSeconds));
}

TrainingGoal EvaluatedTraining::goal() const {
  const TrainOptions& options = estimator_.options().train;
  return {train_spec_.max_steps ? train_spec_.max_steps : options.max_steps, options.epochs};
}

TrainAndEvaluateResult EvaluatedTraining::run_evaluator() {
  const auto presence = lock_as_evaluator(model_dir());
  EvaluatorOptions options;
  options.start_delay = Seconds(eval_spec_.start_delay_secs);
  options.throttle = Seconds(eval_spec_.throttle_secs);
  options.goal = goal();
  if (eval_spec_.idle_timeout_secs) options.idle_timeout = Seconds(*eval_spec_.idle_timeout_secs);
  return to_result(troupe::run_evaluator(*job_, options, steady_clock()));
}

TrainSpec EvaluatedTraining::training() {
  TrainSpec spec = train_spec_;
  // What the options ask for comes first.
  if (!estimator_.config().early_stopping.empty()) {
    spec.callbacks.actions.insert(spec.callbacks.actions.begin(), early_stopping());
  }
  spec.callbacks.actions.push_back(std::make_shared<MarkerRemoval>(model_dir()));
  if (estimator_.options().strategy.cluster.evaluator == detail::Evaluator::none) {
    announce();
    listener_ = std::make_shared<EvaluationListener>(*job_, Seconds(eval_spec_.throttle_secs),
                                                     goal(), steady_clock());
    spec.callbacks.listeners.push_back(listener_);
    // What is given beside the hooks is known to this process alone.
    if (!eval_spec_.input && eval_spec_.actions.empty())
      spec.callbacks.evaluate_together = together();
  }
  return spec;
}

detail::EvaluateTogether EvaluatedTraining::together() {
  return [this](Strategy& strategy, TrainState& state, const DistributedSplits& data,
                const SavedCheckpoint& saved) {
    const auto batch = eval_spec_.batch_size.value_or(estimator_.config().batch_size);
    auto evaluation = detail::evaluate_together(strategy, *estimator_.hooks(), state, data, batch,
                                                eval_spec_.steps);
    if (evaluation && strategy.is_chief()) job_->take(saved.path, std::move(*evaluation));
  };
}

void EvaluatedTraining::announce() const {
  if (estimator_.options().strategy.cluster.rank > 0) return;
  const CheckpointCadence cadence = checkpoint_cadence(estimator_.config());
  log_info("training with an evaluation after every checkpoint, at most every ",
           eval_spec_.throttle_secs, " s; checkpoints every ",
           cadence.steps ? text(*cadence.steps, " steps") : text(*cadence.seconds, " s"));
  if (evaluator_is_present(model_dir())) {
    log_warning("an evaluator is at work in ", model_dir(), " too: both will evaluate and export");
  }
}

/// TODO(T-007): asynchronous workers could begin one after the other, as Estimator's did.
TrainAndEvaluateResult EvaluatedTraining::after_training(const History& history) {
  if (!history.on_chief) return {};
  // One that was announced may have died: what counts is who is there, before the marker ends it.
  const bool evaluator =
      (listener_ == nullptr || job_->is_anothers()) && evaluator_is_present(model_dir());
  mark_finished(history);
  if (listener_ && listener_->last()) return to_result(listener_->last());
  if (evaluator) return {};
  const auto newest = job_->latest_checkpoint();
  if (!newest) return {};
  if (job_->is_settled(*newest)) {  // by a process that was lost before it could report it
    const EvaluationRound round = job_->settled();
    return round.evaluation.metrics.empty() ? TrainAndEvaluateResult() : to_result(round);
  }
  log_info("the last checkpoint has not been evaluated and exported: this process does it now");
  return to_result(evaluate_and_export(*job_, *newest, [](std::int64_t) { return true; }));
}

void EvaluatedTraining::mark_finished(const History& history) {
  const auto newest = estimator_.latest_checkpoint();
  if (!newest) {
    log_warning("training is over without a checkpoint in ", model_dir(),
                ": an evaluator will not learn of it");
    return;
  }
  PosixFileSystem files(model_dir());
  const std::int64_t step = split_checkpoint_path(*newest).step;
  const auto former = read_finished(files);
  const bool known = former && former->goal == goal() && former->step == step;
  if (!known) write_finished(files, {step, goal(), history.reason});
}

void EvaluatedTraining::throw_if_export_failed() const { job_->throw_if_export_failed(); }

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec) {
  EvaluatedTraining evaluated(estimator, train_spec, eval_spec);
  if (serve_if_server(*estimator.hooks(), estimator.options().strategy)) return {};
  TrainAndEvaluateResult result;
  if (estimator.options().strategy.cluster.is_evaluator()) {
    result = evaluated.run_evaluator();
  } else {
    const History history = estimator.train(evaluated.training());
    estimator.close();
    result = evaluated.after_training(history);
  }
  evaluated.throw_if_export_failed();
  return result;
}

}  // namespace troupe
