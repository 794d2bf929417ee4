// train_and_evaluate: training with evaluation and export, the same call alone and in a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/estimator.h"
#include "estimator/specs.h"

namespace troupe {

/// What this process evaluated and exported last; empty in a worker, and where there was nothing
/// left to train.
struct TrainAndEvaluateResult {
  std::optional<Evaluation> evaluation;
  std::vector<std::optional<std::string>> exports;  // by exporter; unset: it chose not to
};

/// Does what this process's role is (docs/train_and_evaluate.md):
/// alone: trains, and evaluates at checkpoints as throttle_secs allows, the last one always;
/// chief and workers: train; then the chief leaves a finished marker, all say goodbye, and where no
/// evaluator is at work the chief evaluates and exports the last checkpoint;
/// evaluator: evaluates and exports the newest checkpoint until training is over.
/// Collective: yes, over chief and workers.  Throws: ConfigError (specs first, before anything
/// starts; checkpoints that are never saved; an evaluator other than evaluator/0); as
/// Estimator::train and evaluate; Stopped after SIGTERM in chief and workers.
TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                          const EvalSpec& eval_spec);

}  // namespace troupe
