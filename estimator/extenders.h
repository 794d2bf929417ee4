// Extenders: an estimator made from another, with more metrics or with its inputs passed through.
// They compose; model directory, options and weights stay those of the first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "estimator/estimator.h"

namespace troupe {

/// What an added metric may look at: one batch of an evaluation.
struct MetricInputs {
  const std::vector<NamedTensor>& features;  // [B, ...]
  const std::vector<at::Tensor>& labels;     // [B, ...]; the fields after the features
  const Predictions& predictions;            // of predict_step
  const TrainOptions& config;

  /// Throws: ConfigError that lists the names there are.
  [[nodiscard]] const at::Tensor& feature(const std::string& name) const;
  [[nodiscard]] const at::Tensor& prediction(const std::string& name) const;
  /// The first label. Throws: ConfigError where there is none.
  [[nodiscard]] const at::Tensor& label() const;
};

struct AddedMetric {
  std::string name;  // one of the estimator's own metrics of this name is replaced
  std::shared_ptr<const Metric> metric;
  /// The predictions and targets that the metric measures.
  std::function<std::pair<at::Tensor, at::Tensor>(const MetricInputs&)> select;
};

/// add_metrics(estimator, {added<RootMeanSquaredError>("rmse", [](const MetricInputs& in) {
///   return std::pair{in.prediction("weight"), in.label()}; })})
template <class M, class Select>
[[nodiscard]] AddedMetric added(std::string name, Select select) {
  return {std::move(name), std::make_shared<const M>(), std::move(select)};
}

/// The estimator with further metrics; evaluations then call predict_step as well.
/// Throws: ConfigError for an empty or reserved name, or a null member.
[[nodiscard]] Estimator add_metrics(const Estimator& estimator, std::vector<AddedMetric> metrics);

/// The estimator whose predictions hold input features too, so that they carry identities. Empty
/// `keys`: all features. Its predictions throw: ConfigError where a key is no feature, or is a
/// prediction's name already.
[[nodiscard]] Estimator forward_features(const Estimator& estimator,
                                         std::vector<std::string> keys = {});

}  // namespace troupe
