// Metrics that are no ratio of two sums, but still made from sums: exact at any number of workers.
// Shapes: B examples, C classes; weights, if any, one for each example or value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/hooks/metrics.h"

namespace troupe {

/// F1 score, 2 TP / (2 TP + FP + FN), of one class, or the mean over all classes that are targets
/// or predicted (macro average). Shapes: predictions [B, C] scores, targets [B] int64 classes, as
/// Accuracy takes them. Source: scikit-learn, f1_score.
class F1 final : public Metric {
 public:
  /// `of`: this class alone. Throws: ConfigError for fewer than two classes, or another class.
  explicit F1(std::int64_t classes, std::optional<std::int64_t> of = std::nullopt);
  [[nodiscard]] Better better() const override { return Better::higher; }
  /// Of each class: those that are it and predicted, that are predicted, that are it.
  [[nodiscard]] std::vector<std::string> sum_names() const override;
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;

 private:
  std::int64_t classes_;
  std::optional<std::int64_t> of_;
};

/// How many examples of each class are taken for which: a picture of C x C squares for summaries,
/// rows by target and columns by prediction, white where none of the row's examples are and dark
/// where all are. The value is the accuracy.
/// Shapes: predictions [B, C] scores, targets [B] int64 classes, as Accuracy takes them.
class ConfusionMatrix final : public Metric {
 public:
  /// Throws: ConfigError for fewer than two classes, or more than 1000.
  explicit ConfusionMatrix(std::int64_t classes);
  [[nodiscard]] Better better() const override { return Better::higher; }
  /// Row by row.
  [[nodiscard]] std::vector<std::string> sum_names() const override;
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
  [[nodiscard]] at::Tensor picture(Span<const double> sums) const override;

 private:
  std::int64_t classes_;
};

/// Area under the ROC curve: how often an example of class 1 has a higher score than one of class
/// 0. Scores are counted in a histogram, and two in one bin are taken for equal, which counts half:
/// the value is off by half the share of such pairs at most. 0 where a class has no example.
/// Shapes: predictions [B] from 0 to 1, probabilities (of logits torch::sigmoid), targets [B], 0 or
/// 1. On the CPU others are an error, elsewhere they make it NaN. Source: Fawcett 2006, "An
/// introduction to ROC analysis".
class AreaUnderCurve final : public Metric {
 public:
  /// Throws: ConfigError for fewer than 2 bins.
  explicit AreaUnderCurve(std::int64_t bins = 1024);
  [[nodiscard]] Better better() const override { return Better::higher; }
  /// The bins of class 0, then those of class 1.
  [[nodiscard]] std::vector<std::string> sum_names() const override;
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;

 private:
  std::int64_t bins_;
};

/// Coefficient of determination: the share of the targets' variance that the predictions explain, 1
/// - sum (y - t)^2 / sum (t - mean t)^2. Of targets that are all equal: 1 if they are met, else 0.
/// Targets whose mean is much larger than their deviation lose digits: of 16, twice those of the
/// quotient. Shapes: predictions and targets [B, ...], the same. Source: scikit-learn, r2_score.
class R2 final : public Metric {
 public:
  [[nodiscard]] Better better() const override { return Better::higher; }
  [[nodiscard]] std::vector<std::string> sum_names() const override;
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

/// Exponential of the mean of losses in nats, such as the cross-entropy of each token.
/// Shapes: predictions are the losses, of any shape; targets none.
class Perplexity final : public Ratio {
 public:
  Perplexity() : Ratio("nats", "tokens") {}
  [[nodiscard]] Better better() const override { return Better::lower; }
  [[nodiscard]] at::Tensor measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const override;
  [[nodiscard]] double compute(Span<const double> sums) const override;
};

}  // namespace troupe
