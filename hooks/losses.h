// Losses: LossSet, the per-example losses of a task, by name; StepResult, what a step returns;
// LossMeter, the mean losses over many steps. Shapes: B examples in a replica's batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// (predictions [B, ...], targets [B, ...]) -> [B], one loss per example, never a mean: the mean is
/// taken over all replicas' examples by Replica::global_mean. For its means with weights: any
/// shape, one loss per token, pixel or box. Where predictions and targets are given in different
/// shapes that LibTorch would broadcast, the first calls throw ConfigError.
using LossFunction = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

class LossSet {
 public:
  LossSet() = default;
  /// Throws: ConfigError on an empty or repeated name and on an empty function.
  LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses);

  LossSet& add(std::string name, LossFunction function);
  /// Throws: ConfigError listing the existing names.
  [[nodiscard]] const LossFunction& at(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, LossFunction>> losses_;
};

/// What a step returns, one loss or several by name. Each loss is a scalar: this replica's share,
/// made by Replica::global_mean (or local_loss): the sum over all replicas is the loss of the step.
struct StepResult {
  std::vector<std::pair<std::string, at::Tensor>> losses;
  /// Set by the framework, by loss: what the weights that it is divided by add up to over all
  /// replicas. Unset, or no entry: the examples of the step.
  std::vector<std::optional<double>> weights;

  StepResult() = default;
  /// One loss, reported as "loss". NOLINTNEXTLINE: `return loss;` is the common case.
  StepResult(at::Tensor loss) : losses{{"loss", std::move(loss)}} {}  // NOLINT
  /// Several: {{"generator", g}, {"discriminator", d}}. The first is logged first.
  StepResult(std::initializer_list<std::pair<std::string, at::Tensor>> named) : losses(named) {}
};

namespace detail {

/// Moves losses that lie on a device to the host: those of one device and type together, since the
/// host waits for each copy.
void to_host(std::vector<StepResult>& results);

/// One loss added up over steps.
struct LossSum {
  std::string name;
  double total = 0;   // of loss * weight
  double weight = 0;  // of the steps that returned it, over all workers: their examples or weights
  [[nodiscard]] double mean() const { return weight == 0 ? 0.0 : total / weight; }
};

/// The mean loss over the examples of many steps, or over what has the weights of a mean. It adds
/// up loss times examples, or weights, of the step, so a short last batch counts by its examples;
/// in a mean of step means it would not. A loss that only some steps return is averaged over those
/// steps. A loss made of means with different weights is averaged over examples.
class LossMeter {
 public:
  /// Adds the results of this worker's replicas in one step of `global_examples` examples.
  /// No communication; the host does not wait for a device.
  void add(const std::vector<StepResult>& results, std::int64_t global_examples);

  /// Over this worker's replicas, in the order in which the losses first appeared.
  [[nodiscard]] std::vector<LossSum> sums() const;
  /// Continues from what sums() and examples() returned.
  void restore(const std::vector<LossSum>& sums, std::int64_t examples);
  /// Of all steps, over all workers.
  [[nodiscard]] std::int64_t examples() const { return examples_; }

 private:
  struct Entry {
    std::string name;
    at::Tensor total;  // scalar, float64
    double weight = 0;
  };
  std::vector<Entry> entries_;
  std::int64_t examples_ = 0;
};

}  // namespace detail
}  // namespace troupe
