// ReplicaDriver: the framework's half of a replica, hidden from hooks: strategies, evaluation and
// layers that sum over replicas drive it through this.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "troupe/data/batch.h"
#include "troupe/hooks/replica.h"
#include "troupe/hooks/replica_updates.h"
#include "troupe/hooks/tensors/autocast.h"

namespace troupe::detail {

/// What of the models does not train: parameters whose requires_grad is off, and modules that are
/// in evaluation mode while others train. By name.
struct Freezing {
  std::vector<std::string> parameters;
  std::vector<std::string> modules;
  bool operator==(const Freezing& other) const {
    return parameters == other.parameters && modules == other.modules;
  }
};

/// A view: as cheap to make as a reference; it must not outlive the replica.
class ReplicaDriver {
 public:
  explicit ReplicaDriver(Replica& replica) : replica_(replica) {}

  /// Which of how many replicas, or virtual replicas, the next step is of.
  void set_place(int index, int count) {
    replica_.place_.index = index;
    replica_.place_.count = count;
  }
  /// Before each part of a step. Evaluation mode is switched on for phases other than training,
  /// whose modes are as the hooks left them.
  void begin_step(const StepContext& context);
  /// See RepeatChecks::expect.
  void expect_repeats();
  /// After each part. Throws: ConfigError if a loss is not a scalar made by global_mean or
  /// local_loss, as far as the first steps show, or if apply_gradients was called for other
  /// optimisers than in the first part of the step.
  void check_result(const StepResult& result) const;
  /// After each part: says what the losses are divided by.
  void describe(StepResult& result) const;
  /// After the last part of a step on `batch`. Throws: ConfigError if the first step changed
  /// parameters past apply_gradients, if a loss depended on a layer of no model, or if a buffer of
  /// the hooks' own was given a value with a graph.
  void end_step(const Batch& batch = {});
  /// What of it does not train now, and putting that back.
  [[nodiscard]] Freezing freezing() const;
  /// What Trainable::add_own added.
  [[nodiscard]] const std::vector<NamedTensor>& own_tensors() const {
    return replica_.trainable_.own;
  }
  void freeze(const Freezing& frozen);
  /// After that, the sum of all parts' results, which it divides by the weights of the step if they
  /// are known only now. Collective: as ParameterUpdate::sum, if so.  Throws: as that.
  void divide(StepResult& total);
  /// This replica's weights in the step, if ParameterUpdate::divides_later(): the strategy is to
  /// divide gradients and losses, so far divided by the examples, by the sum of all. Unset: it is
  /// not.
  [[nodiscard]] std::optional<double> undivided_weight() const;
  /// For updates that ParameterUpdate::postpone() took, once their gradients are summed: multiplies
  /// those of `optimizer` by `factor`, clips them and takes its step.
  void finish_update(const std::string& optimizer, double factor) {
    replica_.updates_->finish(optimizer, factor);
  }
  /// Whether the last update left the sum of every gradient that the optimiser has. With
  /// --shard-optimizer false in most steps: a parameter's is then on the replica alone that steps
  /// it, and undefined elsewhere. The same on every replica.
  [[nodiscard]] bool has_all_gradients(const std::string& optimizer = "optimizer") const;
  /// With `keep` the updates after those of the next step leave all sums, until this has been
  /// called with false and another step has been made; whichever replicas call it. For who looks at
  /// gradients after a step. Without --shard-optimizer they are always there.
  void keep_gradients(bool keep);
  /// Whether the last part's losses would add up over batches: not with local_loss, nor with means
  /// of different kinds.
  [[nodiscard]] bool is_comparable() const;
  /// Whether the last part called all_gather: its losses and metrics are of a whole batch.
  [[nodiscard]] bool has_gathered() const;
  /// "the loss for optimizer "a" is nan", of the last one that was given to apply_gradients; "" if
  /// it is finite.
  [[nodiscard]] std::string non_finite_loss() const;
  /// Whether an optimiser was applied since the replica was made.
  [[nodiscard]] bool has_updated() const;
  [[nodiscard]] const StepContext& context() const { return replica_.context_; }
  [[nodiscard]] const StepOptions& step_options() const { return replica_.options_; }

  /// What the phase's steps add up.
  [[nodiscard]] MetricSet& metrics(Phase phase) {
    return replica_.metrics_[static_cast<std::size_t>(phase)];
  }

  /// For layers: replaces `flat` [n], contiguous, float32 or float64, by its sum over the replicas
  /// of the step. `what` names the layer in messages. Collective: yes, also in backward passes.
  /// Throws: DesyncError, NetError.
  void sum_over_replicas(const at::Tensor& flat, const std::string& what);

  /// Of forward passes from now on.
  void set_precision(Precision precision) { replica_.options_.precision = precision; }

 private:
  void set_modes(bool trains);

  Replica& replica_;
};

/// The scope of a forward pass of a replica's models. While it lives, the replica is this thread's
/// running one, and its precision is switched on.
class ReplicaScope {
 public:
  explicit ReplicaScope(Replica& replica);
  ~ReplicaScope();
  ReplicaScope(const ReplicaScope&) = delete;
  ReplicaScope& operator=(const ReplicaScope&) = delete;

 private:
  Replica* const former_;
  const Autocast autocast_;
};

/// The replica whose step this thread runs; null if none. Layers that normalise over the global
/// batch find their replica through it, because a forward function is given only its input.
[[nodiscard]] Replica* running_replica();

}  // namespace troupe::detail
