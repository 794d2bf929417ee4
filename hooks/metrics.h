// Metric: a number about predictions, kept as sums so that it is exact over any number of workers.
// A metric itself has no state; MetricSum adds up what it measures, and two of them merge by
// adding. Modelled on CLU's metrics (update, merge, compute): sums are sent, never means.
//
// Below it, the commonest metrics (more: hooks/metrics/scores.h), and MetricSet, which holds a
// replica's metrics.
// Shapes: B examples, C classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/hooks/values.h"

namespace troupe {

class Metric {
 public:
  virtual ~Metric() = default;
  /// For who looks for the best: the exporter, a plateau schedule, early stopping. Where it is
  /// unknown they ask for it, or refuse the metric. Default: unknown.
  [[nodiscard]] virtual Better better() const { return Better::unknown; }
  /// Names of the k sums, for reports: {"correct", "examples"}; those named "" are not reported.
  /// The same on every call.
  [[nodiscard]] virtual std::vector<std::string> sum_names() const = 0;
  // Write one of these two, or both.
  /// The sums over one batch, [k] float64, on any device; no gradient is recorded. Default: as
  /// measure_weighted(), with weights that are undefined.
  [[nodiscard]] virtual at::Tensor measure(const at::Tensor& predictions,
                                           const at::Tensor& targets) const {
    return measure_weighted(predictions, targets, {});
  }
  /// The same where not everything counts alike; `weights` are finite and at least 0: 0 for
  /// padding. Shapes: one weight for each of what measure() counts as one. Default: throws
  /// ConfigError.
  [[nodiscard]] virtual at::Tensor measure_weighted(const at::Tensor& predictions,
                                                    const at::Tensor& targets,
                                                    const at::Tensor& weights) const;
  /// The metric's value for the sums [k] over all batches and workers; 0 if nothing was measured.
  [[nodiscard]] virtual double compute(Span<const double> sums) const = 0;
  /// What summaries show beside the value, as Recorder::log_image takes it; undefined: nothing.
  [[nodiscard]] virtual at::Tensor picture(Span<const double> /*sums*/) const { return {}; }
};

/// A metric that divides the first of two sums by the second.
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

/// Mean of the predictions' elements; targets, if given, are weights of the same shape:
/// sum(values * weights) / sum(weights).
class Mean final : public Ratio {
 public:
  Mean() : Ratio("total", "weight") {}
  [[nodiscard]] at::Tensor measure(const at::Tensor& predictions,
                                   const at::Tensor& targets) const override {
    return measure_weighted(predictions, {}, targets);
  }
  /// `targets`: none.
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
};

/// Square root of the mean squared difference between predictions and targets, over all elements.
/// Shapes: predictions and targets [B, ...], the same; weights, if any, too.
class RootMeanSquaredError final : public Ratio {
 public:
  RootMeanSquaredError() : Ratio("squared_error", "values") {}
  [[nodiscard]] Better better() const override { return Better::lower; }
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Share of examples whose largest score is that of the target class.
/// Shapes: predictions [B, C] scores, C at least 2, targets [B] int64 classes below C (on the CPU
/// another one is an error unless its weight is 0, elsewhere it makes the metric NaN); weights, if
/// any, [B]. Scores and classes of tokens [B, T] are flattened first: flatten(0, 1).
class Accuracy final : public Ratio {
 public:
  Accuracy() : Ratio("correct", "examples") {}
  [[nodiscard]] Better better() const override { return Better::higher; }
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
};

/// Share of examples whose target class is among the k largest scores.
/// Shapes: predictions [B, C] with C >= k, targets [B] int64 classes; weights, if any, [B].
class TopK final : public Ratio {
 public:
  /// Throws: ConfigError if k < 1.
  explicit TopK(std::int64_t k);
  [[nodiscard]] Better better() const override { return Better::higher; }
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;

 private:
  std::int64_t k_;
};

/// A metric and its running sums.
class MetricSum {
 public:
  explicit MetricSum(std::shared_ptr<const Metric> metric) : metric_(std::move(metric)) {}

  /// Adds one batch: predictions [B, ...], targets [B, ...] if the metric needs them, and weights
  /// if not everything counts alike. Throws: ConfigError for shapes that the metric does not take,
  /// and for weights if it takes none.
  void update(const at::Tensor& predictions, const at::Tensor& targets = {},
              const at::Tensor& weights = {});

  [[nodiscard]] const Metric& metric() const { return *metric_; }
  /// The sums so far, [k]. The host waits for the device here.
  [[nodiscard]] std::vector<double> sums() const;
  void set_sums(Span<const double> sums);
  void reset() { sums_ = at::Tensor(); }

 private:
  std::shared_ptr<const Metric> metric_;
  at::Tensor sums_;  // [k] float64, on the device of the last batch; undefined: all zero
};

/// The metrics of one phase (train, validation or test) of one replica, with their sums so far. Not
/// thread safe: one replica, one thread.
class MetricSet {
 public:
  /// Adds a metric under its own name: set.add<Accuracy>("accuracy"). Arguments are passed to M.
  template <class M, class... Args>
  MetricSet& add(std::string name, Args&&... args) {
    return add(std::move(name), std::make_shared<const M>(std::forward<Args>(args)...));
  }
  /// Throws: ConfigError on an empty, repeated or reserved name ("loss", "global_step").
  MetricSet& add(std::string name, std::shared_ptr<const Metric> metric);

  /// Throws: ConfigError listing the existing names.
  [[nodiscard]] MetricSum& at(const std::string& name);

  /// All sums one after the other, as workers add them up. set_sums takes the same layout.
  [[nodiscard]] std::vector<double> sums() const;
  void set_sums(Span<const double> sums);
  void reset();
  /// Which way each metric is better, in the order of add().
  [[nodiscard]] std::vector<std::pair<std::string, Better>> better() const;
  /// Every metric's value, in the order of add().
  [[nodiscard]] std::vector<MetricValue> compute() const;
  /// Of those that have one, by name.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> pictures() const;

 private:
  std::vector<std::pair<std::string, MetricSum>> metrics_;
};

namespace detail {

/// [2] float64, as Metric::measure returns it, on the device of `values`: the sum of `values` times
/// `weights`, and that of `weights`, which are 1 if undefined.
[[nodiscard]] at::Tensor weighted_sums(const char* metric, const at::Tensor& values,
                                       const at::Tensor& weights);
/// Throws: ConfigError unless scores are [B, C] of two classes or more, and classes [B].
void check_scores(const char* metric, const at::Tensor& scores, const at::Tensor& classes);
/// [B], 1 where the prediction is `right`, 0 where not, NaN for a class that does not exist and is
/// not weighted by 0. On the CPU, where looking costs nothing, that is an error.
[[nodiscard]] at::Tensor judged(const char* metric, const at::Tensor& right,
                                const at::Tensor& classes, std::int64_t count,
                                const at::Tensor& weights);

}  // namespace detail
}  // namespace troupe
