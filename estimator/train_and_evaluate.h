// train_and_evaluate: training with evaluation and export, the same call alone and in a cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/estimator/estimator.h"
#include "troupe/estimator/specs.h"

namespace troupe {

/// What this process evaluated and exported last; empty in a worker, and if nothing was left to
/// train.
struct TrainAndEvaluateResult {
  std::optional<Evaluation> evaluation;
  std::vector<std::optional<std::string>> exports;  // by exporter; unset: it chose not to
};

class EstimatorJob;
class EvaluationListener;

/// Everything around training in train_and_evaluate, whichever loop trains: the evaluator's work;
/// evaluations at checkpoints if a process is alone; and the end, after which the chief evaluates
/// the last checkpoint unless an evaluator does.
class EvaluatedTraining {
 public:
  /// `estimator` outlives it.  Throws: ConfigError as train_and_evaluate.
  EvaluatedTraining(Estimator& estimator, TrainSpec train_spec, EvalSpec eval_spec);
  ~EvaluatedTraining();
  EvaluatedTraining(const EvaluatedTraining&) = delete;
  EvaluatedTraining& operator=(const EvaluatedTraining&) = delete;

  /// Evaluates and exports the newest checkpoint until training is over.
  /// Blocks: that long, or idle_timeout_secs without news.
  TrainAndEvaluateResult run_evaluator();
  /// The spec to train with: the train spec, and what watches over its checkpoints. Call once.
  [[nodiscard]] TrainSpec training();
  /// After training and leaving the other workers, which do not wait for it. Collective: no.
  TrainAndEvaluateResult after_training(const History& history);
  /// Last of all. Throws: ExportError if an exporter failed, which did not end training.
  void throw_if_export_failed() const;

 private:
  [[nodiscard]] TrainingGoal goal() const;
  [[nodiscard]] const std::string& model_dir() const { return estimator_.config().model_dir; }
  /// The rules of early stopping, each with the way that its metric says is better.
  /// Throws: ConfigError if evaluations lack a metric.
  [[nodiscard]] std::vector<StopRule> known_rules();
  [[nodiscard]] std::shared_ptr<PeriodicAction> early_stopping();
  void announce() const;
  [[nodiscard]] EvaluateTogether together();
  /// On the chief, marks that training is over.
  void mark_finished(const History& history);
  /// Evaluates and exports the result of training; nothing if that was done already.
  TrainAndEvaluateResult evaluate_last();

  Estimator& estimator_;
  const TrainSpec train_spec_;
  const EvalSpec eval_spec_;
  const SteadyClock clock_;
  std::vector<StopRule> rules_;  // empty until this process was the chief
  std::unique_ptr<EstimatorJob> job_;
  std::shared_ptr<EvaluationListener> listener_;  // null: not alone
};

/// Carries out this process's role (docs/train_and_evaluate.md):
/// alone: trains, and evaluates at checkpoints as throttle_secs allows, the last one always;
/// chief and workers: train; then the chief writes a finished marker, all leave the group, and if
/// no evaluator is at work the chief evaluates and exports the last checkpoint;
/// evaluator: evaluates and exports the newest checkpoint until training is over.
/// An exporter that fails does not end training. What a killed process left between an evaluation
/// and its exports is made good by the next start.
/// Collective: yes, over chief and workers.  Throws: ConfigError (specs first, before anything
/// starts; a model that cannot be exported; checkpoints that are never saved; an evaluator other
/// than evaluator/0); as Estimator::train and evaluate; Stopped after SIGTERM, SIGINT or SIGHUP in
/// chief and workers; ExportError at the end if an exporter failed.
TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec);

}  // namespace troupe
