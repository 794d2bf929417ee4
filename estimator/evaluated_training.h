// EvaluatedTraining: what train_and_evaluate does around training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/estimator/train_and_evaluate.h"
#include "troupe/train/evaluation/evaluation_job.h"
#include "troupe/train/evaluation/finished_marker.h"

namespace troupe {

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
  [[nodiscard]] detail::EvaluateTogether together();
  /// On the chief, marks that training is over.
  void mark_finished(const History& history);

  Estimator& estimator_;
  const TrainSpec train_spec_;
  const EvalSpec eval_spec_;
  std::vector<StopRule> rules_;  // empty until this process was the chief
  std::unique_ptr<EstimatorJob> job_;
  std::shared_ptr<EvaluationListener> listener_;  // null: not alone
};

}  // namespace troupe
