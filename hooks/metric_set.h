// MetricSet: the metrics of one phase (train, validation or test) of one replica, with what they
// have added up so far. Not thread safe: one replica, one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/span.h"
#include "hooks/metrics.h"
#include "hooks/values.h"

namespace troupe {

/// A metric and its running sums.
class MetricSum {
 public:
  explicit MetricSum(std::shared_ptr<const Metric> metric);

  /// Adds one batch: predictions [B, ...], and targets [B, ...] where the metric wants them.
  void update(const at::Tensor& predictions, const at::Tensor& targets = {});

  [[nodiscard]] const Metric& metric() const { return *metric_; }
  /// The sums so far, [k]. The host waits for the device here.
  [[nodiscard]] std::vector<double> sums() const;
  void set_sums(Span<const double> sums);
  void reset();

 private:
  std::shared_ptr<const Metric> metric_;
  at::Tensor sums_;  // [k] float64, on the device of the last batch; undefined: all zero
};

class MetricSet {
 public:
  /// Adds a metric under a name of its own: set.add<Accuracy>("accuracy"). Arguments go to M.
  template <class M, class... Args>
  MetricSet& add(std::string name, Args&&... args) {
    return add(std::move(name), std::make_shared<const M>(std::forward<Args>(args)...));
  }
  /// Throws: ConfigError on an empty, repeated or reserved name ("loss", "global_step").
  MetricSet& add(std::string name, std::shared_ptr<const Metric> metric);

  /// Throws: ConfigError that lists the names there are.
  [[nodiscard]] MetricSum& at(const std::string& name);

  /// All sums one after the other: what workers add up. set_sums takes the same layout.
  [[nodiscard]] std::vector<double> sums() const;
  void set_sums(Span<const double> sums);
  void reset();
  /// Every metric's value, in the order of add().
  [[nodiscard]] std::vector<MetricValue> compute() const;

 private:
  std::vector<std::pair<std::string, MetricSum>> metrics_;
};

}  // namespace troupe
