#include "troupe/hooks/step_weights.h"

#include <torch/types.h>

#include <cmath>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

/// The host waits for the device here.
double checked_sum(const at::Tensor& weights) {
  if (weights.numel() == 0) return 0;
  const at::Tensor wide = weights.detach().to(torch::kFloat64);
  const at::Tensor facts = torch::stack({wide.min(), wide.sum()}).to(torch::kCPU);
  const double lowest = facts[0].item<double>();
  const double sum = facts[1].item<double>();
  if (lowest >= 0 && std::isfinite(sum)) return sum;
  throw ConfigError(text("global_mean was given weights of which the lowest is ", lowest,
                         ", and whose sum is ", sum, "."),
                    "give finite weights of at least 0: 1 for what counts, 0 for padding.");
}

}  // namespace

double redivision(double divisor, double weight) { return weight == 0 ? 1.0 : divisor / weight; }

void redivide(StepResult& result, double divisor, double weight) {
  const double factor = redivision(divisor, weight);
  for (auto& [name, loss] : result.losses) loss = loss * factor;
  result.weights.assign(result.losses.size(), weight);
}

void StepWeights::begin(const StepContext& context) {
  context_ = context;
  divisors_.clear();
  means_.clear();
  if (context.part > 0) return;
  late_ = context.parts > 1 || update_.divides_later();
  kind_ = Kind::none;
  own_ = 0;
  total_.reset();
}

at::Tensor StepWeights::divide(const at::Tensor& sum, const at::Tensor& weights) {
  const std::size_t divisor = divisor_of(weights);
  double value = divisors_[divisor].value;
  if (late_ || value == 0) value = static_cast<double>(context_.global_examples);
  at::Tensor mean = sum / value;
  means_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(mean.getIntrusivePtr()), divisor});
  return mean;
}

std::size_t StepWeights::divisor_of(const at::Tensor& weights) {
  TROUPE_CHECK(context_.global_examples > 0);
  for (std::size_t i = 0; i < divisors_.size(); ++i) {
    if (is_same(divisors_[i], weights)) return i;
  }
  const Kind kind = weights.defined() ? Kind::weights : Kind::examples;
  check_one_kind(kind);
  kind_ = kind;
  Divisor made;
  if (kind == Kind::examples) {
    made.value = static_cast<double>(context_.global_examples);
  } else {
    made.weights = weights;
    made.version = weights._version();
    const double own = context_.padding ? 0.0 : checked_sum(weights);
    own_ += own;
    if (!late_) made.value = sum_over_replicas(own);
  }
  divisors_.push_back(std::move(made));
  return divisors_.size() - 1;
}

/// The same answer on every replica, or, where values are compared, an error on some.
bool StepWeights::is_same(const Divisor& divisor, const at::Tensor& weights) const {
  if (!weights.defined() || !divisor.weights.defined()) {
    return weights.defined() == divisor.weights.defined();
  }
  if (divisor.weights.is_same(weights)) return divisor.version == weights._version();
  return late_ && divisor.weights.scalar_type() == weights.scalar_type() &&
         divisor.weights.sizes() == weights.sizes() && divisor.weights.equal(weights);
}

void StepWeights::check_one_kind(Kind kind) const {
  if (!late_ || (divisors_.empty() && (kind_ == Kind::none || kind_ == kind))) return;
  throw ConfigError(
      text(to_string(context_.phase), "_step takes means over different ",
           kind_ == kind ? "weights" : "things: examples and weights",
           ", and what they add up to is known only when the step's gradients are summed."),
      "give every global_mean of a step the same weights, or leave out --accumulate, "
      "--virtual-replicas and --staleness-bound 0.");
}

double StepWeights::sum_over_replicas(double own) {
  const at::Tensor sum = torch::full({1}, own, torch::dtype(torch::kFloat64).device(device_));
  update_.sum(sum, text("weights of a global_mean in ", to_string(context_.phase), "_step"));
  return sum.item<double>();
}

double StepWeights::factor() {
  return redivision(static_cast<double>(context_.global_examples), total());
}

double StepWeights::total() {
  if (!total_) total_ = sum_over_replicas(own_);
  return *total_;
}

void StepWeights::describe(StepResult& result) const {
  result.weights.assign(result.losses.size(), std::nullopt);
  if (late_) return;  // of its sum, by the strategy or the replica
  const auto weight_of = [&](std::size_t divisor) {
    return divisors_[divisor].weights.defined() ? std::optional(divisors_[divisor].value)
                                                : std::nullopt;
  };
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    if (divisors_.size() == 1) result.weights[i] = weight_of(0);
    for (const Mean& mean : means_) {
      const at::Tensor& loss = result.losses[i].second;
      if (mean.tensor._unsafe_get_target() == loss.unsafeGetTensorImpl()) {
        result.weights[i] = weight_of(mean.divisor);
      }
    }
  }
}

}  // namespace troupe::detail
