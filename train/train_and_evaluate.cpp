#include "train/train_and_evaluate.h"

#include <utility>

#include "core/error.h"
#include "core/file_system.h"
#include "core/log.h"
#include "train/checkpoint/model_weights.h"
#include "train/roles/evaluation_listener.h"
#include "train/roles/evaluator.h"
#include "train/roles/evaluator_presence.h"

namespace troupe {
namespace {

/// An estimator and a specification, as the roles want them.
class EstimatorJob final : public EvaluationJob {
 public:
  EstimatorJob(Estimator& estimator, const EvalSpec& spec)
      : estimator_(estimator), spec_(spec), files_(estimator.config().model_dir) {}

  [[nodiscard]] std::optional<std::string> latest_checkpoint() override {
    return estimator_.latest_checkpoint();
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

  [[nodiscard]] std::optional<Finished> finished() override {
    return files_.status("") ? read_finished(files_) : std::nullopt;
  }

 private:
  Estimator& estimator_;
  const EvalSpec& spec_;
  PosixFileSystem files_;
};

TrainAndEvaluateResult to_result(const std::optional<EvaluationRound>& last) {
  if (!last) return {};
  return {last->evaluation, last->exports};
}

TrainingGoal goal_of(const Estimator& estimator, const TrainSpec& spec) {
  const TrainOptions& options = estimator.options().train;
  return {spec.max_steps ? spec.max_steps : options.max_steps, options.epochs};
}

TrainCall call_of(const TrainSpec& spec) {
  TrainCall call;
  call.input = spec.input;
  call.max_steps = spec.max_steps;
  call.companions = spec.companions;
  return call;
}

/// Marks on disk, by the chief, whether training is over.
class Completion {
 public:
  Completion(const Estimator& estimator, TrainingGoal goal)
      : files_(estimator.config().model_dir), goal_(std::move(goal)) {}

  void begin() {
    files_.create_root();
    clear_finished(files_);
  }
  void end(const Estimator& estimator, const History& history) {
    const auto newest = estimator.latest_checkpoint();
    if (!newest) return;
    write_finished(files_, {split_checkpoint_path(*newest).step, goal_, history.reason});
  }

 private:
  PosixFileSystem files_;
  TrainingGoal goal_;
};

TrainAndEvaluateResult run_alone(Estimator& estimator, const TrainSpec& train_spec,
                                 const EvalSpec& eval_spec) {
  const CheckpointCadence cadence = checkpoint_cadence(estimator.config());
  log_info("training with an evaluation after every checkpoint, at most every ",
           eval_spec.throttle_secs, " s; checkpoints every ",
           cadence.steps ? text(*cadence.steps, " steps") : text(*cadence.seconds, " s"));
  EstimatorJob job(estimator, eval_spec);
  const SteadyClock clock;
  EvaluationListener::Options options;
  options.throttle = Seconds(eval_spec.throttle_secs);
  options.max_steps = goal_of(estimator, train_spec).max_steps;
  const auto listener = std::make_shared<EvaluationListener>(job, options, clock);
  TrainCall call = call_of(train_spec);
  call.companions.listeners.push_back(listener);
  Completion completion(estimator, goal_of(estimator, train_spec));
  completion.begin();
  completion.end(estimator, estimator.train(call));
  return to_result(listener->last());
}

/// Where nobody evaluated meanwhile: once, what training came to.
TrainAndEvaluateResult evaluate_at_end(Estimator& estimator, const EvalSpec& eval_spec) {
  EstimatorJob job(estimator, eval_spec);
  const auto newest = job.latest_checkpoint();
  if (!newest) return {};
  log_info("no evaluator is at work: the chief evaluates the last checkpoint");
  return to_result(evaluate_and_export(job, *newest, [](std::int64_t) { return true; }));
}

TrainAndEvaluateResult run_in_group(Estimator& estimator, const TrainSpec& train_spec,
                                    const EvalSpec& eval_spec) {
  const std::string& model_dir = estimator.config().model_dir;
  const bool chief = estimator.options().strategy.cluster.rank == 0;
  Completion completion(estimator, goal_of(estimator, train_spec));
  if (chief) completion.begin();
  bool evaluator = estimator.config().task.evaluator_expected || evaluator_is_present(model_dir);
  const History history = estimator.train(call_of(train_spec));
  evaluator = evaluator || evaluator_is_present(model_dir);  // the marker is what ends it
  if (chief) completion.end(estimator, history);
  estimator.close();
  if (!chief || evaluator) return {};
  return evaluate_at_end(estimator, eval_spec);
}

TrainAndEvaluateResult run_as_evaluator(Estimator& estimator, const TrainSpec& train_spec,
                                        const EvalSpec& eval_spec) {
  const EvaluatorPresence presence(estimator.config().model_dir);
  EstimatorJob job(estimator, eval_spec);
  EvaluatorOptions options;
  options.start_delay = Seconds(eval_spec.start_delay_secs);
  options.throttle = Seconds(eval_spec.throttle_secs);
  options.goal = goal_of(estimator, train_spec);
  if (eval_spec.idle_timeout_secs) options.idle_timeout = Seconds(*eval_spec.idle_timeout_secs);
  const SteadyClock clock;
  ThreadSleeper sleeper;
  return to_result(run_evaluator(job, options, clock, sleeper));
}

void check(const Estimator& estimator) {
  const Task& task = estimator.config().task;
  if (task.is_evaluator() && task.task_id > 0) {
    throw ConfigError(text("this process is evaluator/", task.task_id, "."),
                      "start one evaluator only, with index 0.");
  }
  if (task.task_type == "ps") {
    throw ConfigError("this process is a parameter server, which this version does not have.",
                      "list chief and workers only.");
  }
  if (!task.is_evaluator() && checkpoint_cadence(estimator.config()).never()) {
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
  const Task& task = estimator.config().task;
  if (task.is_evaluator()) return run_as_evaluator(estimator, train_spec, eval_spec);
  if (task.is_alone) return run_alone(estimator, train_spec, eval_spec);
  return run_in_group(estimator, train_spec, eval_spec);
}

}  // namespace troupe
