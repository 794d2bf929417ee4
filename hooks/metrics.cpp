#include "hooks/metrics.h"

#include <torch/types.h>

#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

/// Two sums as the [2] float64 tensor that Metric::measure returns, on the device of `sum`.
at::Tensor pair_of(const at::Tensor& sum, double count) {
  return torch::stack(
      {sum.to(torch::kFloat64), torch::full({}, count, sum.options().dtype(torch::kFloat64))});
}

void check_classes(const char* metric, const at::Tensor& scores, const at::Tensor& classes) {
  if (scores.dim() == 2 && classes.dim() == 1 && scores.size(0) == classes.size(0)) return;
  throw ConfigError(
      text(metric, " was given scores ", scores.sizes(), " and targets ", classes.sizes(), "."),
      "pass scores [B, C] and target classes [B].");
}

}  // namespace

at::Tensor Mean::measure(const at::Tensor& predictions, const at::Tensor& targets) const {
  const at::Tensor values = predictions.to(torch::kFloat64);
  if (!targets.defined()) return pair_of(values.sum(), static_cast<double>(values.numel()));
  if (targets.sizes() != predictions.sizes()) {
    throw ConfigError(
        text("Mean was given values ", predictions.sizes(), " and weights ", targets.sizes(), "."),
        "pass one weight per value.");
  }
  const at::Tensor weights = targets.to(torch::kFloat64);
  return torch::stack({(values * weights).sum(), weights.sum()});
}

at::Tensor RootMeanSquaredError::measure(const at::Tensor& predictions,
                                         const at::Tensor& targets) const {
  // [B, 1] and [B] would broadcast to [B, B].
  if (!targets.defined() || targets.sizes() != predictions.sizes()) {
    throw ConfigError(
        text("RootMeanSquaredError was given predictions ", predictions.sizes(), " and targets ",
             targets.defined() ? text(targets.sizes()) : "none", "."),
        "pass one target per prediction, of the same shape.");
  }
  const at::Tensor difference = predictions.to(torch::kFloat64) - targets.to(torch::kFloat64);
  return pair_of(difference.square().sum(), static_cast<double>(targets.numel()));
}

double RootMeanSquaredError::compute(Span<const double> sums) const {
  return std::sqrt(Ratio::compute(sums));
}

at::Tensor Accuracy::measure(const at::Tensor& predictions, const at::Tensor& targets) const {
  check_classes("Accuracy", predictions, targets);
  return pair_of(predictions.argmax(1).eq(targets).sum(), static_cast<double>(targets.numel()));
}

TopK::TopK(std::int64_t k) : Ratio("correct", "examples"), k_(k) {
  if (k < 1) throw ConfigError(text("TopK was given k = ", k, "."), "give a k of at least 1.");
}

at::Tensor TopK::measure(const at::Tensor& predictions, const at::Tensor& targets) const {
  check_classes("TopK", predictions, targets);
  if (predictions.size(1) < k_) {
    throw ConfigError(text("TopK with k = ", k_, " was given ", predictions.size(1), " classes."),
                      "choose a k of at most the number of classes.");
  }
  const at::Tensor best = std::get<1>(predictions.topk(k_, 1));  // [B, k]
  return pair_of(best.eq(targets.unsqueeze(1)).any(1).sum(), static_cast<double>(targets.numel()));
}

}  // namespace troupe
