// train_and_evaluate: training with evaluation and export, the same call alone and in a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/estimator/estimator.h"
#include "troupe/estimator/specs.h"

namespace troupe {

/// What this process evaluated and exported last; where a process before it had done all of that,
/// what that one came to. Empty in a worker.
struct TrainAndEvaluateResult {
  std::optional<Evaluation> evaluation;
  std::vector<std::optional<std::string>> exports;  // by exporter; unset: it chose not to
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
