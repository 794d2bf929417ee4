#include "troupe/estimator/extenders.h"

#include <algorithm>
#include <set>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/estimator/evaluation_pass.h"

namespace troupe {
namespace {

const at::Tensor& find(const std::vector<NamedTensor>& tensors, const std::string& name,
                       const char* what) {
  for (const auto& [known, tensor] : tensors) {
    if (known == name) return tensor;
  }
  throw ConfigError(
      std::string("there is no ") + what + " \"" + name + "\".",
      tensors.empty() ? std::string("there are none.") : "use one of: " + join_keys(tensors) + ".");
}

class WithMetrics final : public detail::WrappedHooks {
 public:
  WithMetrics(const Estimator& estimator, std::vector<AddedMetric> metrics)
      : WrappedHooks(estimator.hooks()),
        feature_names_(estimator.options().feature_names),
        config_(estimator.config()),
        metrics_(std::move(metrics)) {
    for (const AddedMetric& metric : metrics_) check(metric);
  }

  [[nodiscard]] MetricSet create_metrics() const override {
    MetricSet all = inner().create_metrics();
    for (const AddedMetric& metric : metrics_) all.add(own_name(metric), metric.metric);
    return all;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    StepResult result = inner().validation_step(replica, batch);
    update(replica, batch);
    return result;
  }
  [[nodiscard]] StepResult test_step(Replica& replica, const Batch& batch) const override {
    StepResult result = inner().test_step(replica, batch);
    update(replica, batch);
    return result;
  }

 private:
  static void check(const AddedMetric& metric) {
    if (metric.name.empty() || metric.name == "loss" || metric.name == "average_loss" ||
        metric.name == "global_step" || metric.name.front() == detail::kReplaces) {
      throw ConfigError("\"" + metric.name + "\" cannot be the name of an added metric.",
                        "choose one other than loss, average_loss and global_step, without a "
                        "leading +.");
    }
    if (!metric.metric || !metric.select) {
      throw ConfigError("the added metric \"" + metric.name + "\" is not complete.",
                        "give both a metric and the function that selects its inputs.");
    }
  }

  /// One more mark than any metric of this name that the inner hooks have added.
  [[nodiscard]] std::string own_name(const AddedMetric& metric) const {
    std::string name = detail::kReplaces + metric.name;
    const auto* wrapped = dynamic_cast<const WrappedHooks*>(&inner());
    for (; wrapped != nullptr; wrapped = dynamic_cast<const WrappedHooks*>(&wrapped->inner())) {
      const auto* more = dynamic_cast<const WithMetrics*>(wrapped);
      if (more == nullptr) continue;
      for (const AddedMetric& known : more->metrics_) {
        if (known.name == metric.name) name.insert(name.begin(), detail::kReplaces);
      }
    }
    return name;
  }

  void update(Replica& replica, const Batch& batch) const {
    const auto split = detail::split_fields(batch.fields, feature_names_);
    Batch without_labels = batch;  // as predict_step sees it
    without_labels.fields.resize(split.features.size());
    const Predictions predictions = inner().predict_step(replica, without_labels);
    const MetricInputs inputs{split.features, split.labels, predictions, config_};
    for (const AddedMetric& metric : metrics_) {
      const auto [predicted, target] = metric.select(inputs);
      replica.metric(own_name(metric)).update(predicted, target);
    }
  }

  std::vector<std::string> feature_names_;
  TrainOptions config_;
  std::vector<AddedMetric> metrics_;
};

class ForwardingFeatures final : public detail::WrappedHooks {
 public:
  ForwardingFeatures(const Estimator& estimator, std::vector<std::string> keys)
      : WrappedHooks(estimator.hooks()),
        feature_names_(estimator.options().feature_names),
        keys_(std::move(keys)) {}

  [[nodiscard]] Predictions predict_step(Replica& replica, const Batch& batch) const override {
    Predictions all = inner().predict_step(replica, batch);
    for (const auto& [name, feature] : chosen(batch)) {
      const bool taken = std::any_of(all.begin(), all.end(),
                                     [&n = name](const NamedTensor& p) { return p.first == n; });
      if (taken) {
        throw ConfigError("the feature \"" + name +
                              "\" cannot be forwarded: a prediction has its "
                              "name.",
                          "give the feature or the prediction another name.");
      }
      all.emplace_back(name, feature);
    }
    return all;
  }

 private:
  /// predict_step gets features alone, so every field is one.
  [[nodiscard]] std::vector<NamedTensor> chosen(const Batch& batch) const {
    std::vector<std::string> names = feature_names_;
    if (names.empty()) names = detail::feature_names({}, batch.fields.size() + 1);
    std::vector<NamedTensor> features;
    for (std::size_t i = 0; i < batch.fields.size() && i < names.size(); ++i) {
      features.emplace_back(names[i], batch.fields[i]);
    }
    if (keys_.empty()) return features;
    std::vector<NamedTensor> some;
    for (const std::string& key : keys_) some.emplace_back(key, find(features, key, "feature"));
    return some;
  }

  std::vector<std::string> feature_names_;
  std::vector<std::string> keys_;
};

}  // namespace

const at::Tensor& MetricInputs::feature(const std::string& name) const {
  return find(features, name, "feature");
}

const at::Tensor& MetricInputs::prediction(const std::string& name) const {
  return find(predictions, name, "prediction");
}

const at::Tensor& MetricInputs::label() const {
  if (!labels.empty()) return labels.front();
  throw ConfigError("the data has no label.",
                    "return a field after the features, or name fewer features.");
}

Estimator add_metrics(const Estimator& estimator, std::vector<AddedMetric> metrics) {
  return estimator.with_hooks(std::make_shared<const WithMetrics>(estimator, std::move(metrics)));
}

Estimator forward_features(const Estimator& estimator, std::vector<std::string> keys) {
  return estimator.with_hooks(
      std::make_shared<const ForwardingFeatures>(estimator, std::move(keys)));
}

namespace detail {

std::vector<std::string> feature_names(const std::vector<std::string>& given,
                                       std::size_t field_count) {
  if (given.empty()) {
    const std::size_t features = field_count > 1 ? field_count - 1 : field_count;
    if (features == 1) return {"input"};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < features; ++i) names.push_back(text("input_", i));
    return names;
  }
  if (given.size() > field_count) {
    throw ConfigError(text(given.size(), " feature names are given, and a batch has ", field_count,
                           field_count == 1 ? " field." : " fields."),
                      "name the leading fields that are inputs of the model, no more.");
  }
  const std::set<std::string> different(given.begin(), given.end());
  if (different.size() != given.size() || different.count("") != 0) {
    throw ConfigError("a feature name is empty or there twice.", "give every feature its own.");
  }
  return given;
}

FeaturesAndLabels split_fields(const std::vector<at::Tensor>& fields,
                               const std::vector<std::string>& given_names) {
  const auto names = feature_names(given_names, fields.size());
  FeaturesAndLabels split;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i < names.size()) {
      split.features.emplace_back(names[i], fields[i]);
    } else {
      split.labels.push_back(fields[i]);
    }
  }
  return split;
}

}  // namespace detail
}  // namespace troupe
