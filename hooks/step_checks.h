// StepChecks: finds in a replica's first training steps what one replica alone would compute
// rightly and several would not: a loss that no sum over replicas makes right, and parameters that
// change without one; beside it, layers of no model, what is repeated in a step, gradients that
// hooks change, and parameters that are not used. Later steps cost no more than a look-up for each
// update. Thread rule: the replica's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/gradient_checks.h"
#include "troupe/hooks/leaf_checks.h"
#include "troupe/hooks/phase.h"
#include "troupe/hooks/repeat_checks.h"
#include "troupe/hooks/tensors/named_tensor.h"
#include "troupe/hooks/tensors/torch_versions.h"
#include "troupe/hooks/tensors/value_sums.h"
#include "troupe/hooks/unused_parameters.h"

namespace troupe::detail {

class StepChecks {
 public:
  /// `owned` outlives this object; `parameters` are those of all models, `unowned` those of no
  /// optimiser. `warns`: false on replicas whose warnings another one gives.
  StepChecks(const OwnedTensors& owned, const std::vector<NamedTensor>& parameters,
             std::vector<NamedTensor> unowned, bool warns);

  /// What looks beside it, at its own things.
  [[nodiscard]] LeafChecks& leaves() { return leaves_; }
  [[nodiscard]] RepeatChecks& repeats() { return repeats_; }
  [[nodiscard]] UnusedParameters& unused() { return unused_; }
  [[nodiscard]] GradientChecks& gradients() { return gradients_; }

  /// Before each part of a step, which one of so many replicas computes.
  void begin(const StepContext& context, int replicas);
  /// The sum of `value` over all replicas is what its hook means. Of the present part.
  void declare(const at::Tensor& value);
  /// The same, of a value that is meant over this replica's share.
  void declare_local(const at::Tensor& value) {
    declare(value);
    has_local_loss_ = true;
  }
  /// The step has compared examples of all replicas. Of the present part.
  void declare_gathered() { has_gathered_ = true; }
  [[nodiscard]] bool has_gathered() const { return has_gathered_; }
  /// Of the present part.
  [[nodiscard]] bool has_local_loss() const { return has_local_loss_; }
  /// Before an optimiser's n-th update of a step, from `loss`; `call` counts from 0.
  /// Throws: ConfigError if `loss` is computed from no declared value (in the first two such
  /// updates), or if parameters were changed (in the first step). Warns if other terms that depend
  /// on parameters were added to declared values.
  void before_update(const at::Tensor& loss, const std::string& optimizer, int call) {
    if (watches_parameters()) check_parameters();
    if (!loss.requires_grad()) return;  // nothing here depends on parameters; elsewhere it may
    int& checked = checked_[{optimizer, call}];
    if (checked < kChecks) check_loss(loss, optimizer, ++checked == 1);
  }
  /// The same for gradients that train_step made itself, for which it may have changed parameters
  /// and put them back.
  void before_own_update() {
    if (!watches_parameters()) return;
    check_parameters(Changes::put_back);
    remember_parameters();
  }
  void after_update() {
    has_updated_ = true;
    if (watches_parameters()) remember_parameters();
  }
  /// After each part. Throws: ConfigError if no value was declared, or if `loss` has a graph that
  /// holds none (in the first two training steps).
  void check_result(const std::string& name, const at::Tensor& loss) const;
  /// After the last part of a step on `fields`, when its graph is gone. Throws: ConfigError as
  /// before_update, for the parameters; as LeafChecks and RepeatChecks.
  void end(const std::vector<at::Tensor>& fields) {
    if (watches_parameters()) check_parameters();
    repeats_.end();
    leaves_.end(fields);
  }

  /// Whether any optimiser has been applied, in any step.
  [[nodiscard]] bool has_updated() const { return has_updated_; }

 private:
  static constexpr int kChecks = 2;  // of each update: a loop may run two step functions in turn

  /// What the graph of a loss holds.
  enum class Origin { declared, mixed, other };
  [[nodiscard]] Origin origin_of(const at::Tensor& loss) const;
  void check_loss(const at::Tensor& loss, const std::string& optimizer, bool is_first);
  [[nodiscard]] bool watches_parameters() const {
    return context_.phase == Phase::train && steps_ == 1;
  }
  void remember_parameters();
  enum class Changes { none, put_back };  // that are allowed
  void check_parameters(Changes allowed = Changes::none) const;

  const OwnedTensors& owned_;
  const bool warns_;
  StepContext context_;
  std::int64_t steps_ = 0;  // of training, begun
  std::int64_t declarations_ = 0;
  bool has_local_loss_ = false;
  bool has_gathered_ = false;
  // Weak, so that no graph lives longer than its hook means it to.
  std::vector<WeakGraphNode> declared_;
  std::map<std::pair<std::string, int>, int> checked_;  // how often, by optimiser and call
  std::vector<ValueSum> values_;                        // of all owned parameters, in order
  bool has_updated_ = false;
  LeafChecks leaves_;
  RepeatChecks repeats_;
  UnusedParameters unused_;
  GradientChecks gradients_;
};

}  // namespace troupe::detail
