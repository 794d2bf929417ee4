#include "troupe/hooks/metrics.h"

#include <torch/types.h>

#include <cmath>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/user_code.h"
#include "troupe/hooks/named.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe {
namespace detail {

at::Tensor weighted_sums(const char* metric, const at::Tensor& values, const at::Tensor& weights) {
  const at::Tensor wide = values.to(torch::kFloat64);
  if (!weights.defined()) {
    return torch::stack(
        {wide.sum(), torch::full({}, static_cast<double>(wide.numel()), wide.options())});
  }
  if (weights.sizes() != values.sizes()) {
    throw ConfigError(
        text(metric, " was given values ", values.sizes(), " and weights ", weights.sizes(), "."),
        "pass one weight per value.");
  }
  const at::Tensor of_each = weights.to(wide.options());
  return torch::stack({(wide * of_each).sum(), of_each.sum()});
}

void check_scores(const char* metric, const at::Tensor& scores, const at::Tensor& classes) {
  const bool fits = classes.defined() && scores.dim() == 2 && classes.dim() == 1 &&
                    scores.size(0) == classes.size(0);
  if (fits && scores.size(1) > 1) return;
  throw ConfigError(text(metric, " was given scores ", scores.sizes(), " and targets ",
                         classes.defined() ? text(classes.sizes()) : "none", "."),
                    "pass scores [B, C] of two classes or more, and target classes [B]; of one "
                    "logit x a row make torch::stack({-x, x}, 1).");
}

at::Tensor judged(const char* metric, const at::Tensor& right, const at::Tensor& classes,
                  std::int64_t count, const at::Tensor& weights) {
  at::Tensor outside = classes.lt(0).logical_or(classes.ge(count));
  if (weights.defined() && weights.sizes() == classes.sizes())
    outside = outside.logical_and(weights.ne(0));
  if (!classes.is_cpu()) return right.to(torch::kFloat64).masked_fill(outside, std::nan(""));
  if (!outside.any().item<bool>()) return right;
  const at::Tensor wrong = classes.masked_select(outside)[0];
  throw ConfigError(text(metric, " was given the target class ", wrong.item<double>(),
                         ", and scores of ", count, " classes."),
                    "number classes from 0, and leave out what does not count: its weight is 0.");
}

}  // namespace detail

at::Tensor Metric::measure_weighted(const at::Tensor& /*predictions*/,
                                    const at::Tensor& /*targets*/,
                                    const at::Tensor& weights) const {
  if (!weights.defined()) {
    throw ConfigError("a metric measures nothing.",
                      "override Metric::measure or Metric::measure_weighted.");
  }
  throw ConfigError("a metric that takes no weights was given some.",
                    "override Metric::measure_weighted, or update it without weights.");
}

at::Tensor Mean::measure_weighted(const at::Tensor& predictions, const at::Tensor& /*targets*/,
                                  const at::Tensor& weights) const {
  return detail::weighted_sums("Mean", predictions, weights);
}

at::Tensor RootMeanSquaredError::measure_weighted(const at::Tensor& predictions,
                                                  const at::Tensor& targets,
                                                  const at::Tensor& weights) const {
  // [B, 1] and [B] would broadcast to [B, B].
  if (!targets.defined() || targets.sizes() != predictions.sizes()) {
    throw ConfigError(
        text("RootMeanSquaredError was given predictions ", predictions.sizes(), " and targets ",
             targets.defined() ? text(targets.sizes()) : "none", "."),
        "pass one target per prediction, of the same shape.");
  }
  const at::Tensor difference = predictions.to(torch::kFloat64) - targets.to(torch::kFloat64);
  return detail::weighted_sums("RootMeanSquaredError", difference.square(), weights);
}

double RootMeanSquaredError::compute(Span<const double> sums) const {
  return std::sqrt(Ratio::compute(sums));
}

at::Tensor Accuracy::measure_weighted(const at::Tensor& predictions, const at::Tensor& targets,
                                      const at::Tensor& weights) const {
  detail::check_scores("Accuracy", predictions, targets);
  const at::Tensor right = detail::judged("Accuracy", predictions.argmax(1).eq(targets), targets,
                                          predictions.size(1), weights);
  return detail::weighted_sums("Accuracy", right, weights);
}

TopK::TopK(std::int64_t k) : Ratio("correct", "examples"), k_(k) {
  if (k < 1) throw ConfigError(text("TopK was given k = ", k, "."), "give a k of at least 1.");
}

at::Tensor TopK::measure_weighted(const at::Tensor& predictions, const at::Tensor& targets,
                                  const at::Tensor& weights) const {
  detail::check_scores("TopK", predictions, targets);
  if (predictions.size(1) < k_) {
    throw ConfigError(text("TopK with k = ", k_, " was given ", predictions.size(1), " classes."),
                      "choose a k of at most the number of classes.");
  }
  const at::Tensor best = std::get<1>(predictions.topk(k_, 1));  // [B, k]
  const at::Tensor right = detail::judged("TopK", best.eq(targets.unsqueeze(1)).any(1), targets,
                                          predictions.size(1), weights);
  return detail::weighted_sums("TopK", right, weights);
}

void MetricSum::update(const at::Tensor& predictions, const at::Tensor& targets,
                       const at::Tensor& weights) {
  const torch::NoGradGuard no_grad;
  if (!predictions.defined()) {
    throw ConfigError("a metric was given predictions that are undefined.",
                      "pass what the model returned, or values of this batch.");
  }
  const at::Tensor measured =  // [k]
      weights.defined() ? metric_->measure_weighted(predictions, targets, weights)
                        : metric_->measure(predictions, targets);
  if (!measured.defined() || measured.dim() != 1 || measured.scalar_type() != torch::kFloat64 ||
      measured.numel() != static_cast<std::int64_t>(metric_->sum_names().size())) {
    throw ConfigError(
        text("a metric measured ", measured.defined() ? text(measured.scalar_type(), " ") : "",
             detail::shape_text(measured), " where its sum_names() promise float64 [",
             metric_->sum_names().size(), "]."),
        "return one float64 sum per name from Metric::measure.");
  }
  // Sums of a checkpoint are on the host; they go where the next ones are made.
  sums_ = sums_.defined() ? sums_.to(measured.device()) + measured : measured;
}

std::vector<double> MetricSum::sums() const {
  std::vector<double> values(metric_->sum_names().size(), 0.0);
  if (!sums_.defined()) return values;
  const at::Tensor on_host = sums_.to(torch::kCPU).contiguous();
  const auto* data = on_host.data_ptr<double>();
  return {data, data + on_host.numel()};
}

void MetricSum::set_sums(Span<const double> sums) {
  TROUPE_CHECK_EQ(sums.size(), metric_->sum_names().size());
  sums_ = torch::tensor(std::vector<double>(sums.begin(), sums.end()), torch::kFloat64);
}

MetricSet& MetricSet::add(std::string name, std::shared_ptr<const Metric> metric) {
  if (name == "loss" || name == "global_step") {
    throw ConfigError("a metric is named \"" + name + "\", which reports use themselves.",
                      "choose another name in create_metrics.");
  }
  detail::check_new_name(metrics_, name, "metric", "create_metrics");
  metrics_.emplace_back(std::move(name), MetricSum(std::move(metric)));
  return *this;
}

MetricSum& MetricSet::at(const std::string& name) {
  return detail::find_named(metrics_, name, "metric", "create_metrics");
}

std::vector<double> MetricSet::sums() const {
  std::vector<double> all;
  for (const auto& [name, metric] : metrics_) {
    const auto own = metric.sums();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void MetricSet::set_sums(Span<const double> sums) {
  std::size_t offset = 0;
  for (auto& [name, metric] : metrics_) {
    const auto count = metric.metric().sum_names().size();
    TROUPE_CHECK(offset + count <= sums.size());
    metric.set_sums(sums.subspan(offset, count));
    offset += count;
  }
  TROUPE_CHECK_EQ(offset, sums.size());
}

void MetricSet::reset() {
  for (auto& [name, metric] : metrics_) metric.reset();
}

std::vector<std::pair<std::string, Better>> MetricSet::better() const {
  std::vector<std::pair<std::string, Better>> all;
  for (const auto& [name, metric] : metrics_) all.emplace_back(name, metric.metric().better());
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> MetricSet::pictures() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& [name, metric] : metrics_) {
    at::Tensor picture = detail::in_user_code(
        [&, &of = metric] { return of.metric().picture(of.sums()); },
        [&, &name = name] { return text("the picture of metric \"", name, "\" failed"); });
    if (picture.defined()) all.emplace_back(name, std::move(picture));
  }
  return all;
}

std::vector<MetricValue> MetricSet::compute() const {
  std::vector<MetricValue> values;
  for (const auto& [name, metric] : metrics_) {
    const auto sums = metric.sums();
    const auto names = metric.metric().sum_names();
    const double computed = detail::in_user_code(
        [&, &of = metric] { return of.metric().compute(sums); },
        [&, &of = name] { return text("Metric::compute of \"", of, "\" failed"); });
    MetricValue value{name, computed, {}, metric.metric().better()};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!names[i].empty()) value.sums.emplace_back(names[i], sums[i]);
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace troupe
