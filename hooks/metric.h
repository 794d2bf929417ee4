// Metric: a number about predictions, kept as sums so that it is exact over any number of workers.
// A metric itself has no state; MetricSum adds up what it measures, and two of them merge by
// adding. After CLU's metrics (update, merge, compute): sums travel, never means.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace troupe
