#include "estimator/train_and_evaluate.h"

#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "estimator/roles/evaluation_listener.h"
#include "estimator/roles/evaluator.h"
#include "estimator/roles/evaluator_presence.h"
#include "estimator/roles/marker_reader.h"
#include "servers/parameter_server.h"
#include "summaries/summary_reader.h"
#include "train/checkpoint/checkpoint_index.h"
#include "train/checkpoint/checkpoint_manifest.h"
#include "train/checkpoint/model_weights.h"

namespace troupe {
namespace {

/// An estimator and a specification, as the roles want them.
class EstimatorJob final : public EvaluationJob {
 public:
  EstimatorJob(Estimator& estimator, const EvalSpec& spec)
      : estimator_(estimator), spec_(spec), files_(estimator.config().model_dir) {}

  /// Looked up anew only when the index has changed: the evaluator asks every second, and what is
  /// wrong with a checkpoint is to be told once.
  [[nodiscard]] std::optional<std::string> latest_checkpoint() override {
    const std::string index = index_text();
    if (!asked_ || index != index_) latest_ = estimator_.latest_checkpoint();
    asked_ = true;
    index_ = index;
    return latest_;
  }

  [[nodiscard]] Evaluation evaluate(const std::string& checkpoint) override {
    EvaluateCall call;
    call.input = spec_.input;
    call.steps = spec_.steps;
    call.batch_size = spec_.batch_size;
    call.name = spec_.name;
    call.checkpoint = checkpoint;
    call.actions = spec_.actions;
    return estimator_.evaluate(call);
  }

  std::vector<std::optional<std::string>> export_models(const std::string& checkpoint,
                                                        const Evaluation& evaluation,
                                                        bool is_final) override {
    std::vector<std::optional<std::string>> exports;
    for (const auto& exporter : spec_.exporters) {
      ExportOffer offer;
      offer.export_directory = estimator_.config().model_dir + "/export/" + exporter->name();
      offer.checkpoint = checkpoint;
      offer.evaluation = evaluation;
      offer.evaluation_directory = estimator_.evaluation_directory(spec_.name);
      offer.is_final = is_final;
      offer.write_model = estimator_.model_writer(checkpoint);
      exports.push_back(exporter->offer(offer));
    }
    return exports;
  }

  [[nodiscard]] std::optional<Finished> finished() override { return markers_.read(); }

 private:
  [[nodiscard]] std::string index_text() {
    try {
      if (!files_.status("") || !files_.status(kIndexName)) return "";
      const auto bytes = files_.read_file(kIndexName, kMaxManifestBytes);
      return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    } catch (const CheckpointError&) {
      return "";  // replaced at this moment: the next look tells
    }
  }

  Estimator& estimator_;
  const EvalSpec& spec_;
  PosixFileSystem files_;
  SteadyClock clock_;
  MarkerReader markers_{files_, clock_};
  bool asked_ = false;
  std::string index_;
  std::optional<std::string> latest_;
};

TrainAndEvaluateResult to_result(const std::optional<EvaluationRound>& last) {
  if (!last) return {};
  return {last->evaluation, last->exports};
}

TrainingGoal goal_of(const Estimator& estimator, const TrainSpec& spec) {
  const TrainOptions& options = estimator.options().train;
  return {spec.max_steps ? spec.max_steps : options.max_steps, options.epochs};
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

TrainCall call_of(const Estimator& estimator, const TrainSpec& spec) {
  TrainCall call;
  call.input = spec.input;
  call.max_steps = spec.max_steps;
  call.companions = spec.companions;
  call.companions.actions.push_back(std::make_shared<MarkerRemoval>(estimator.config().model_dir));
  return call;
}

/// Marks, by the chief, that training is over. Returns whether that is news.
bool mark_finished(const Estimator& estimator, const TrainingGoal& goal, const History& history) {
  const auto newest = estimator.latest_checkpoint();
  if (!newest) {
    log_warning("training is over without a checkpoint in ", estimator.config().model_dir,
                ": an evaluator will not learn of it");
    return false;
  }
  PosixFileSystem files(estimator.config().model_dir);
  const std::int64_t step = split_checkpoint_path(*newest).step;
  const auto former = read_finished(files);
  const bool known = former && former->goal == goal && former->step == step;
  if (!known) write_finished(files, {step, goal, history.reason});
  return !known;
}

/// Once, what training came to; nothing where it was evaluated already.
TrainAndEvaluateResult evaluate_at_end(Estimator& estimator, const EvalSpec& eval_spec) {
  EstimatorJob job(estimator, eval_spec);
  const auto newest = job.latest_checkpoint();
  if (!newest) return {};
  const auto history = read_scalars(estimator.evaluation_directory(eval_spec.name));
  if (history.count(split_checkpoint_path(*newest).step) != 0) return {};
  log_info("the last checkpoint has not been evaluated: this process does it");
  return to_result(evaluate_and_export(job, *newest, [](std::int64_t) { return true; }));
}

TrainAndEvaluateResult run_alone(Estimator& estimator, const TrainSpec& train_spec,
                                 const EvalSpec& eval_spec) {
  const CheckpointCadence cadence = checkpoint_cadence(estimator.config());
  log_info("training with an evaluation after every checkpoint, at most every ",
           eval_spec.throttle_secs, " s; checkpoints every ",
           cadence.steps ? text(*cadence.steps, " steps") : text(*cadence.seconds, " s"));
  if (evaluator_is_present(estimator.config().model_dir)) {
    log_warning("an evaluator is at work in ", estimator.config().model_dir,
                " too: both will evaluate and export");
  }
  EstimatorJob job(estimator, eval_spec);
  const SteadyClock clock;
  const TrainingGoal goal = goal_of(estimator, train_spec);
  EvaluationListener::Options options;
  options.throttle = Seconds(eval_spec.throttle_secs);
  options.max_steps = goal.max_steps;
  const auto listener = std::make_shared<EvaluationListener>(job, options, clock);
  TrainCall call = call_of(estimator, train_spec);
  call.companions.listeners.push_back(listener);
  const History history = estimator.train(call);
  const bool news = mark_finished(estimator, goal, history);
  if (listener->last() || !news) return to_result(listener->last());
  // The run that trained this far was killed before its final evaluation.
  return evaluate_at_end(estimator, eval_spec);
}

/// TODO(T-007): asynchronous workers could begin one after the other, as Estimator's did.
TrainAndEvaluateResult run_in_group(Estimator& estimator, const TrainSpec& train_spec,
                                    const EvalSpec& eval_spec) {
  const bool chief = estimator.options().strategy.cluster.rank == 0;
  const History history = estimator.train(call_of(estimator, train_spec));
  // Whoever was announced may have died: what counts is who is there, before the marker ends it.
  const bool evaluator = chief && evaluator_is_present(estimator.config().model_dir);
  estimator.close();
  if (!chief) return {};
  mark_finished(estimator, goal_of(estimator, train_spec), history);
  return evaluator ? TrainAndEvaluateResult() : evaluate_at_end(estimator, eval_spec);
}

TrainAndEvaluateResult run_as_evaluator(Estimator& estimator, const TrainSpec& train_spec,
                                        const EvalSpec& eval_spec) {
  ThreadSleeper sleeper;
  const EvaluatorPresence presence(estimator.config().model_dir, sleeper);
  EstimatorJob job(estimator, eval_spec);
  EvaluatorOptions options;
  options.start_delay = Seconds(eval_spec.start_delay_secs);
  options.throttle = Seconds(eval_spec.throttle_secs);
  options.goal = goal_of(estimator, train_spec);
  if (eval_spec.idle_timeout_secs) options.idle_timeout = Seconds(*eval_spec.idle_timeout_secs);
  const SteadyClock clock;
  return to_result(run_evaluator(job, options, clock, sleeper));
}

void check(const Estimator& estimator) {
  const bool evaluates = estimator.options().strategy.cluster.is_evaluator();
  if (!evaluates && checkpoint_cadence(estimator.config()).never()) {
    throw ConfigError(
        "train_and_evaluate needs a checkpoint saver, and checkpoints are switched "
        "off.",
        "set save_checkpoints_steps or save_checkpoints_secs above 0.");
  }
}

}  // namespace

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec) {
  eval_spec.validate();
  train_spec.validate();
  check(estimator);
  const Cluster& cluster = estimator.options().strategy.cluster;
  if (serve_if_server(*estimator.hooks(), estimator.options().strategy)) return {};
  if (cluster.is_evaluator()) return run_as_evaluator(estimator, train_spec, eval_spec);
  if (cluster.evaluator == Evaluator::none) return run_alone(estimator, train_spec, eval_spec);
  return run_in_group(estimator, train_spec, eval_spec);
}

}  // namespace troupe
