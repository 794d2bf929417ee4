// LossSet: the per-example losses of a task, by name. StepResult: what a step makes of them.
// Shapes: B examples in a replica's batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// (predictions [B, ...], targets [B, ...]) -> [B], one loss per example, never a mean: the mean is
/// taken over all replicas' examples by Replica::global_mean.
using LossFunction = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

class LossSet {
 public:
  LossSet() = default;
  /// Throws: ConfigError on an empty or repeated name and on an empty function.
  LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses);

  LossSet& add(std::string name, LossFunction function);
  /// Throws: ConfigError that lists the names there are.
  [[nodiscard]] const LossFunction& at(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, LossFunction>> losses_;
};

/// What a step returns, one loss or several by name. Each loss is a scalar: this replica's share,
/// made by Replica::global_mean, so that the sum over all replicas is the loss of the step.
struct StepResult {
  std::vector<std::pair<std::string, at::Tensor>> losses;

  StepResult() = default;
  /// One loss, reported as "loss". NOLINTNEXTLINE: `return loss;` is the common case.
  StepResult(at::Tensor loss) : losses{{"loss", std::move(loss)}} {}  // NOLINT
  /// Several: {{"generator", g}, {"discriminator", d}}. The first is the one that is logged first.
  StepResult(std::initializer_list<std::pair<std::string, at::Tensor>> named) : losses(named) {}
};

}  // namespace troupe
