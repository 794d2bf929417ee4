// StepResult: what a step returns, one loss or several by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Each loss is a scalar: this replica's share, made by Replica::global_mean, so that the sum over
/// all replicas is the loss of the step.
struct StepResult {
  std::vector<std::pair<std::string, at::Tensor>> losses;

  StepResult() = default;
  /// One loss, reported as "loss". NOLINTNEXTLINE: `return loss;` is the common case.
  StepResult(at::Tensor loss) : losses{{"loss", std::move(loss)}} {}  // NOLINT
  /// Several: {{"generator", g}, {"discriminator", d}}. The first is the one that is logged first.
  StepResult(std::initializer_list<std::pair<std::string, at::Tensor>> named) : losses(named) {}
};

}  // namespace troupe
