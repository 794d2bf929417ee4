// Metric: a number about predictions, kept as sums so that it is exact over any number of workers.
// A metric itself has no state; MetricSum adds up what it measures, and two of them merge by
// adding. After CLU's metrics (update, merge, compute): sums travel, never means.
//
// Below it the stock metrics. Shapes: B examples, C classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/span.h"

namespace troupe {

class Metric {
 public:
  virtual ~Metric() = default;
  /// Names of the k sums, for reports: {"correct", "examples"}. The same on every call.
  [[nodiscard]] virtual std::vector<std::string> sum_names() const = 0;
  /// The sums over one batch, [k] float64, on any device; no gradient is recorded.
  [[nodiscard]] virtual at::Tensor measure(const at::Tensor& predictions,
                                           const at::Tensor& targets) const = 0;
  /// The metric of the sums [k] over all batches and workers; 0 when nothing was measured.
  [[nodiscard]] virtual double compute(Span<const double> sums) const = 0;
};

/// A metric that is the first of two sums over the second.
class Ratio : public Metric {
 public:
  [[nodiscard]] std::vector<std::string> sum_names() const final { return names_; }
  [[nodiscard]] double compute(Span<const double> sums) const override {
    return sums[1] == 0 ? 0.0 : sums[0] / sums[1];
  }

 protected:
  Ratio(const char* first, const char* second) : names_{first, second} {}

 private:
  const std::vector<std::string> names_;
};

/// Mean of the predictions' elements; with targets, those are weights of the same shape:
/// sum(values * weights) / sum(weights).
class Mean final : public Ratio {
 public:
  Mean() : Ratio("total", "weight") {}
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
};

/// Square root of the mean squared difference between predictions and targets, over all elements.
/// Shapes: predictions and targets [B, ...], the same.
class RootMeanSquaredError final : public Ratio {
 public:
  RootMeanSquaredError() : Ratio("squared_error", "values") {}
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Share of examples whose largest score is that of the target class.
/// Shapes: predictions [B, C] scores, targets [B] int64 classes.
class Accuracy final : public Ratio {
 public:
  Accuracy() : Ratio("correct", "examples") {}
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
};

/// Share of examples whose target class is among the k largest scores.
/// Shapes: predictions [B, C] with C >= k, targets [B] int64 classes.
class TopK final : public Ratio {
 public:
  /// Throws: ConfigError when k < 1.
  explicit TopK(std::int64_t k);
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;

 private:
  std::int64_t k_;
};

}  // namespace troupe
