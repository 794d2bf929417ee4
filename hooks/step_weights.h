// StepWeights: what the means of a step are divided by. For examples that is known on every
// replica; weights are added up over the replicas first: before backward if possible, otherwise
// after the gradients of all parts of the step are summed, which are then divided once.
// Thread rule: the replica's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/hooks/losses.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/phase.h"

namespace troupe::detail {

/// What makes of a value that is divided by `divisor` one that is divided by `weight`. 1 if nothing
/// weighs anything: the value is 0.
[[nodiscard]] double redivision(double divisor, double weight);
/// Multiplies all losses by redivision(divisor, weight), and says that `weight` divides them.
void redivide(StepResult& result, double divisor, double weight);

class StepWeights {
 public:
  /// `update` adds up over the replicas and outlives this object; `device` is the replica's.
  StepWeights(ParameterUpdate& update, c10::Device device) : update_(update), device_(device) {}

  /// Before each part of a step.
  void begin(const StepContext& context);

  /// `sum` (scalar), this replica's, divided by what `weights` add up to over all replicas;
  /// undefined: by the examples of the step. Where that is known only later, divided by the
  /// examples for now. Collective: with weights, unless is_late().
  /// Throws: ConfigError for weights that are negative or not finite, and for a second kind of mean
  /// in a step where is_late(); as ParameterUpdate::sum.
  [[nodiscard]] at::Tensor divide(const at::Tensor& sum, const at::Tensor& weights);

  /// After each part: what each loss was divided by, as StepResult::weights says.
  void describe(StepResult& result) const;

  /// Whether this part has taken means of different kinds.
  [[nodiscard]] bool has_several() const { return divisors_.size() > 1; }
  /// Gradients and losses are still to be multiplied by factor().
  [[nodiscard]] bool is_late() const { return late_ && kind_ == Kind::weights; }
  /// This replica's weights in all parts of the step.
  [[nodiscard]] double own() const { return own_; }
  /// What they add up to over all replicas. Collective: yes, the first time in a step.
  [[nodiscard]] double total();
  [[nodiscard]] double factor();

 private:
  enum class Kind { none, examples, weights };
  struct Divisor {
    at::Tensor weights;  // undefined: the examples
    std::uint32_t version = 0;
    double value = 0;  // where it is not late
  };
  struct Mean {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // weak: no graph lives longer for it
    std::size_t divisor;
  };
  [[nodiscard]] std::size_t divisor_of(const at::Tensor& weights);
  [[nodiscard]] bool is_same(const Divisor& divisor, const at::Tensor& weights) const;
  void check_one_kind(Kind kind) const;
  [[nodiscard]] double sum_over_replicas(double own);

  ParameterUpdate& update_;
  const c10::Device device_;
  StepContext context_;
  bool late_ = false;
  Kind kind_ = Kind::none;  // of the means of the step so far
  std::vector<Divisor> divisors_;
  std::vector<Mean> means_;
  double own_ = 0;
  std::optional<double> total_;
};

}  // namespace troupe::detail
