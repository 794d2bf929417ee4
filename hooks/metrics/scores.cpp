#include "troupe/hooks/metrics/scores.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe {
namespace {

/// Weights [B] in float64; undefined ones are 1.
at::Tensor weights_of(const char* metric, const at::Tensor& weights, const at::Tensor& like) {
  if (!weights.defined()) return torch::ones(like.sizes(), like.options().dtype(torch::kFloat64));
  if (weights.sizes() == like.sizes()) return weights.to(like.options().dtype(torch::kFloat64));
  throw ConfigError(
      text(metric, " was given values ", like.sizes(), " and weights ", weights.sizes(), "."),
      "pass one weight per value.");
}

/// [B, count] float64: in each row a 1 at its number in `places` [B].
at::Tensor one_of(std::int64_t count, const at::Tensor& places) {
  return torch::arange(count, places.options()).eq(places.unsqueeze(1)).to(torch::kFloat64);
}

void check_same(const char* metric, const at::Tensor& predictions, const at::Tensor& targets,
                bool one_dimension) {
  const bool fits = targets.defined() && targets.sizes() == predictions.sizes() &&
                    (!one_dimension || predictions.dim() == 1);
  if (fits) return;
  throw ConfigError(text(metric, " was given predictions ", predictions.sizes(), " and targets ",
                         detail::shape_text(targets), "."),
                    one_dimension ? "pass a score [B] and a target [B] for each example."
                                  : "pass one target per prediction, of the same shape.");
}

void check_classes(const char* metric, std::int64_t classes, const at::Tensor& predictions,
                   const at::Tensor& targets) {
  detail::check_scores(metric, predictions, targets);
  if (predictions.size(1) == classes) return;
  throw ConfigError(
      text(metric, " of ", classes, " classes was given scores of ", predictions.size(1), "."),
      "make it for as many classes as the model has outputs.");
}

}  // namespace

F1::F1(std::int64_t classes, std::optional<std::int64_t> of) : classes_(classes), of_(of) {
  if (classes >= 2 && (!of || (*of >= 0 && *of < classes))) return;
  throw ConfigError(
      text("F1 was given ", classes, " classes", of ? text(", and class ", *of) : "", "."),
      "give two classes or more, and a class below their number.");
}

std::vector<std::string> F1::sum_names() const {
  return std::vector<std::string>(static_cast<std::size_t>(3 * classes_));
}

at::Tensor F1::measure_weighted(const at::Tensor& predictions, const at::Tensor& targets,
                                const at::Tensor& weights) const {
  check_classes("F1", classes_, predictions, targets);
  const at::Tensor predicted = predictions.argmax(1);
  const at::Tensor right =
      detail::judged("F1", predicted.eq(targets), targets, classes_, weights).to(torch::kFloat64);
  const at::Tensor each = weights_of("F1", weights, targets);
  // A class that does not exist has made `right` NaN, or weighs nothing.
  const at::Tensor is = one_of(classes_, targets) * each.unsqueeze(1);
  return torch::cat({(is * right.unsqueeze(1)).sum(0),
                     (one_of(classes_, predicted) * each.unsqueeze(1)).sum(0), is.sum(0)});
}

double F1::compute(Span<const double> sums) const {
  const auto classes = static_cast<std::size_t>(classes_);
  double total = 0;
  double occur = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    if (of_ && static_cast<std::size_t>(*of_) != i) continue;
    const double both = sums[classes + i] + sums[2 * classes + i];  // 2 TP + FP + FN
    if (both == 0) continue;
    total += 2 * sums[i] / both;
    ++occur;
  }
  return occur == 0 ? 0.0 : total / occur;
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  if (classes >= 2 && classes <= 1000) return;
  throw ConfigError(text("ConfusionMatrix was given ", classes, " classes."), "give two to 1000.");
}

std::vector<std::string> ConfusionMatrix::sum_names() const {
  return std::vector<std::string>(static_cast<std::size_t>(classes_ * classes_));
}

at::Tensor ConfusionMatrix::measure_weighted(const at::Tensor& predictions,
                                             const at::Tensor& targets,
                                             const at::Tensor& weights) const {
  check_classes("ConfusionMatrix", classes_, predictions, targets);
  const at::Tensor predicted = predictions.argmax(1);
  // NaN, or an error, for a class that does not exist.
  const at::Tensor exists =
      detail::judged("ConfusionMatrix", torch::ones_like(targets).to(torch::kBool), targets,
                     classes_, weights)
          .to(torch::kFloat64);
  const at::Tensor each = weights_of("ConfusionMatrix", weights, targets) * exists;
  return torch::matmul((one_of(classes_, targets) * each.unsqueeze(1)).t(),
                       one_of(classes_, predicted))
      .flatten();
}

double ConfusionMatrix::compute(Span<const double> sums) const {
  const auto classes = static_cast<std::size_t>(classes_);
  double right = 0;
  double all = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    all += sums[i];
    if (i / classes == i % classes) right += sums[i];
  }
  return all == 0 ? 0.0 : right / all;
}

at::Tensor ConfusionMatrix::picture(Span<const double> sums) const {
  constexpr std::int64_t kPixels = 256;  // of a side, or one for each class
  const at::Tensor counts =
      torch::tensor(at::ArrayRef<double>(sums.data(), sums.size()), torch::kFloat64)
          .view({classes_, classes_});
  const at::Tensor shares = counts / counts.sum(1, /*keepdim=*/true).clamp_min(1e-300);
  const std::int64_t side = std::max<std::int64_t>(kPixels / classes_, 1);
  const at::Tensor squares = shares.repeat_interleave(side, 0).repeat_interleave(side, 1);
  // From white to the blue of the report's first curve.
  const at::Tensor blue = torch::tensor({0.12, 0.35, 0.66}, torch::kFloat64).view({3, 1, 1});
  return 1 - squares.unsqueeze(0) * (1 - blue);
}

AreaUnderCurve::AreaUnderCurve(std::int64_t bins) : bins_(bins) {
  if (bins < 2)
    throw ConfigError(text("AreaUnderCurve was given ", bins, " bins."), "give two or more.");
}

std::vector<std::string> AreaUnderCurve::sum_names() const {
  return std::vector<std::string>(static_cast<std::size_t>(2 * bins_));
}

at::Tensor AreaUnderCurve::measure_weighted(const at::Tensor& predictions,
                                            const at::Tensor& targets,
                                            const at::Tensor& weights) const {
  check_same("AreaUnderCurve", predictions, targets, /*one_dimension=*/true);
  at::Tensor each = weights_of("AreaUnderCurve", weights, predictions);
  const at::Tensor scores = predictions.to(torch::kFloat64);
  const at::Tensor classes = targets.to(torch::kFloat64);
  const at::Tensor fits = scores.ge(0)
                              .logical_and(scores.le(1))
                              .logical_and(classes.eq(0).logical_or(classes.eq(1)))
                              .logical_or(each.eq(0));
  if (!predictions.is_cpu()) {
    each = each.masked_fill(fits.logical_not(), std::nan(""));
  } else if (!fits.all().item<bool>()) {
    const at::Tensor wrong = fits.logical_not().nonzero()[0][0];
    throw ConfigError(text("AreaUnderCurve was given the score ",
                           scores[wrong.item<std::int64_t>()].item<double>(), " and the target ",
                           classes[wrong.item<std::int64_t>()].item<double>(), "."),
                      "pass probabilities from 0 to 1, and targets 0 or 1; of logits "
                      "torch::sigmoid(logits).");
  }
  const at::Tensor bin = (scores.nan_to_num(0.0) * static_cast<double>(bins_))
                             .floor()
                             .clamp(0.0, static_cast<double>(bins_ - 1));
  const at::Tensor place =
      (bin + classes.nan_to_num(0.0).clamp(0.0, 1.0).floor() * static_cast<double>(bins_))
          .to(torch::kInt64);
  return torch::zeros({2 * bins_}, each.options()).index_add(0, place, each);
}

double AreaUnderCurve::compute(Span<const double> sums) const {
  const auto bins = static_cast<std::size_t>(bins_);
  double below = 0;  // examples of class 0 in lower bins
  double of_one = 0;
  double pairs = 0;  // in the right order, ties by half
  for (std::size_t i = 0; i < bins; ++i) {
    pairs += sums[bins + i] * (below + sums[i] / 2);
    below += sums[i];
    of_one += sums[bins + i];
  }
  return below == 0 || of_one == 0 ? 0.0 : pairs / (below * of_one);
}

std::vector<std::string> R2::sum_names() const {
  return {"squared_error", "values", "total", "squares"};
}

at::Tensor R2::measure_weighted(const at::Tensor& predictions, const at::Tensor& targets,
                                const at::Tensor& weights) const {
  check_same("R2", predictions, targets, /*one_dimension=*/false);
  const at::Tensor each = weights_of("R2", weights, predictions);
  const at::Tensor wide = targets.to(torch::kFloat64);
  const at::Tensor error = predictions.to(torch::kFloat64) - wide;
  return torch::stack({(error.square() * each).sum(), each.sum(), (wide * each).sum(),
                       (wide.square() * each).sum()});
}

double R2::compute(Span<const double> sums) const {
  if (sums[1] == 0) return 0;
  const double variance = sums[3] - sums[2] * sums[2] / sums[1];
  if (variance > 0) return 1 - sums[0] / variance;
  return sums[0] == 0 ? 1 : 0;
}

at::Tensor Perplexity::measure_weighted(const at::Tensor& predictions,
                                        const at::Tensor& /*targets*/,
                                        const at::Tensor& weights) const {
  return detail::weighted_sums("Perplexity", predictions, weights);
}

double Perplexity::compute(Span<const double> sums) const {
  return sums[1] == 0 ? 0.0 : std::exp(Ratio::compute(sums));
}

}  // namespace troupe
