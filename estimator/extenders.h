// Extenders: an estimator made from another, with more metrics or with its inputs passed through.
// They compose; model directory, options and weights stay those of the first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/estimator/estimator.h"
#include "troupe/hooks/hooks.h"

namespace troupe {

/// The input of an added metric: one batch of an evaluation.
struct MetricInputs {
  const std::vector<NamedTensor>& features;  // [B, ...]
  const std::vector<at::Tensor>& labels;     // [B, ...]; the fields after the features
  const Predictions& predictions;            // of predict_step
  const TrainOptions& config;

  /// Throws: ConfigError listing the existing names.
  [[nodiscard]] const at::Tensor& feature(const std::string& name) const;
  [[nodiscard]] const at::Tensor& prediction(const std::string& name) const;
  /// The first label. Throws: ConfigError if there is none.
  [[nodiscard]] const at::Tensor& label() const;
};

struct AddedMetric {
  std::string name;  // replaces the estimator's own metric of this name
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

/// The estimator whose predictions also contain input features, so that they carry identities.
/// Empty `keys`: all features. Predicting throws: ConfigError if a key is not a feature, or is
/// already the name of a prediction.
[[nodiscard]] Estimator forward_features(const Estimator& estimator,
                                         std::vector<std::string> keys = {});

namespace detail {

/// Another object's hooks, so that some can be overridden.
class WrappedHooks : public Hooks {
 public:
  explicit WrappedHooks(std::shared_ptr<const Hooks> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] LossSet create_losses() const override { return inner_->create_losses(); }
  [[nodiscard]] MetricSet create_metrics() const override { return inner_->create_metrics(); }
  [[nodiscard]] Trainable create_model() const override { return inner_->create_model(); }
  [[nodiscard]] Splits create_datasets() const override { return inner_->create_datasets(); }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    return inner_->train_step(replica, batch);
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    return inner_->validation_step(replica, batch);
  }
  [[nodiscard]] StepResult test_step(Replica& replica, const Batch& batch) const override {
    return inner_->test_step(replica, batch);
  }
  [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
    return inner_->predict_step(replica, batch);
  }
  [[nodiscard]] const Hooks& inner() const { return *inner_; }

 private:
  std::shared_ptr<const Hooks> inner_;
};

/// A batch's fields, separated: the model's inputs with their names, and the labels.
struct FeaturesAndLabels {
  std::vector<NamedTensor> features;
  std::vector<at::Tensor> labels;
};

/// The names of the features among `field_count` fields: `given`, or by the rule of
/// EstimatorOptions::feature_names. Throws: ConfigError for more names than fields, or an empty or
/// repeated one.
[[nodiscard]] std::vector<std::string> feature_names(const std::vector<std::string>& given,
                                                     std::size_t field_count);

[[nodiscard]] FeaturesAndLabels split_fields(const std::vector<at::Tensor>& fields,
                                             const std::vector<std::string>& given_names);

}  // namespace detail
}  // namespace troupe
