// The stock metrics. Shapes: B examples, C classes.
#pragma once

#include <cstdint>

#include "hooks/metric.h"

namespace troupe {

/// Mean of the predictions' elements; with targets, those are weights of the same shape:
/// sum(values * weights) / sum(weights).
class Mean final : public Metric {
 public:
  [[nodiscard]] std::vector<std::string> sum_names() const override { return {"total", "weight"}; }
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Square root of the mean squared difference between predictions and targets, over all elements.
/// Shapes: predictions and targets [B, ...], the same.
class RootMeanSquaredError final : public Metric {
 public:
  [[nodiscard]] std::vector<std::string> sum_names() const override {
    return {"squared_error", "values"};
  }
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Share of examples whose largest score is that of the target class.
/// Shapes: predictions [B, C] scores, targets [B] int64 classes.
class Accuracy final : public Metric {
 public:
  [[nodiscard]] std::vector<std::string> sum_names() const override {
    return {"correct", "examples"};
  }
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Share of examples whose target class is among the k largest scores.
/// Shapes: predictions [B, C] with C >= k, targets [B] int64 classes.
class TopK final : public Metric {
 public:
  /// Throws: ConfigError when k < 1.
  explicit TopK(std::int64_t k);
  [[nodiscard]] std::vector<std::string> sum_names() const override {
    return {"correct", "examples"};
  }
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;

 private:
  std::int64_t k_;
};

}  // namespace troupe
