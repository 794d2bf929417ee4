// Hooks: the class a user derives from. Nine functions define what to train; the framework does
// the rest. Hooks hold configuration only (every function is const): models, optimisers, metrics
// and the step count live in the framework's state, so a checkpoint cannot miss any.
//
// Threads: with several replicas in one process the steps of different replicas run at the same
// time, on the same hooks. The other functions are called by one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/data/batch.h"
#include "troupe/data/dataset.h"
#include "troupe/hooks/losses.h"
#include "troupe/hooks/metrics.h"
#include "troupe/hooks/replica.h"
#include "troupe/hooks/trainable.h"

namespace troupe {

/// Named outputs of predict_step, each [B, ...]; the first is the default one.
using Predictions = std::vector<NamedTensor>;

class Hooks {
 public:
  virtual ~Hooks() = default;

  /// Per-example losses by name, for Replica::loss.
  [[nodiscard]] virtual LossSet create_losses() const = 0;
  /// Metrics by name, for Replica::metric; each phase gets its own. Default: none.
  [[nodiscard]] virtual MetricSet create_metrics() const { return {}; }
  /// Models and optimisers, called once per replica. Initial values need not agree between workers:
  /// the chief's are copied to all.
  [[nodiscard]] virtual Trainable create_model() const = 0;
  /// Training, validation and test data, called once per worker, the same on each; the framework
  /// gives every replica its share. A split may be null.
  [[nodiscard]] virtual Splits create_datasets() const = 0;

  /// One step of training: forward, loss by global_mean, apply_gradients; the first step of a
  /// training must apply at least one optimiser. Training mode, gradients on.
  [[nodiscard]] virtual StepResult train_step(Replica& replica, const Batch& batch) const = 0;
  /// After the updates of a training step, once on every replica: what follows the weights and is
  /// no optimiser's, such as target networks, averages of weights, codebooks, clamped values. The
  /// weights are equal on all replicas, and so must be what this makes of them: from them, buffers,
  /// progress() (whose step is that of the step that was made) and nothing that differs between
  /// replicas. With asynchronous parameter servers each worker follows the weights that it sees,
  /// and the chief's copy is saved. Gradients off. Default: nothing.
  virtual void after_step(Replica& /*replica*/) const {}
  /// Loss and metrics of one batch. Evaluation mode, gradients off.
  [[nodiscard]] virtual StepResult validation_step(Replica& replica, const Batch& batch) const = 0;
  /// The same for the test data. Default: validation_step.
  [[nodiscard]] virtual StepResult test_step(Replica& replica, const Batch& batch) const {
    return validation_step(replica, batch);
  }
  /// Predictions of one batch, without labels. Evaluation mode, gradients off.
  /// Default: throws ConfigError, saying what to fill in.
  [[nodiscard]] virtual Predictions predict_step(Replica& /*replica*/,
                                                 const Batch& /*batch*/) const {
    throw ConfigError("predict_step is not written.",
                      "override it in your hooks: run the model on the batch and return "
                      "{{\"name\", tensor [B, ...]}}.");
  }
};

}  // namespace troupe
