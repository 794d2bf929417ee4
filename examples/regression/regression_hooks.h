// examples/regression/regression_hooks.h -- template/my_hooks.h, filled in for the weight of
// newborns. Several inputs by name: kFeatures, in the order of the batch's fields.
// Shapes: N births of a file, B in this replica's batch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/regression/births.h"
#include "examples/regression/wide_and_deep.h"
#include "troupe.h"

struct RegressionOptions {
  std::int64_t hidden_units = 64;
  std::int64_t nembeds = 3;
  std::int64_t train_csv_rows = 20'000;

  std::vector<troupe::Flag> flags() {
    const std::pair<std::int64_t, std::int64_t> positive{1, 10'000'000};
    return {
        troupe::flag("learning-rate"),
        troupe::flag("momentum"),
        troupe::flag("weight-decay"),
        troupe::flag("data-dir"),
        troupe::flag("train-examples"),
        troupe::flag("hidden-units", &hidden_units, "units of a hidden layer", {1, 65536}),
        troupe::flag("nembeds", &nembeds, "size of the embedding of age and plurality", {1, 65536}),
        troupe::flag("train-csv-rows", &train_csv_rows,
                     "births to train on where they are generated", positive)};
  }
};

class RegressionHooks final : public troupe::Hooks {
 public:
  /// The inputs, by the names that added metrics and exported models know; the label follows them.
  inline static const std::vector<std::string> kFeatures = {"is_male", "mother_age", "plurality",
                                                            "gestation_weeks"};

  RegressionHooks(const troupe::Options& options, const RegressionOptions& mine)
      : options_(options), mine_(mine) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& weight, const torch::Tensor& target) {
               return (weight - target).pow(2).squeeze(1);  // [B]
             }}};
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("absolute_error");
  }

  troupe::Trainable create_model() const override {
    auto net = std::make_shared<WideAndDeep>(mine_.hidden_units, mine_.nembeds);
    auto adam = std::make_shared<torch::optim::Adam>(
        net->parameters(), torch::optim::AdamOptions(options_.train.learning_rate)
                               .betas({options_.train.momentum, 0.999})
                               .weight_decay(options_.train.weight_decay));
    return {net, adam};
  }

  troupe::Splits create_datasets() const override {
    const std::filesystem::path folder = options_.data.data_dir;
    const bool generated = folder.empty();
    const auto train = dataset(generated ? births::generate(mine_.train_csv_rows, /*seed=*/1)
                                         : births::read_csv(folder / "train.csv"));
    const std::int64_t wanted = options_.data.train_examples;  // 0: all
    return {troupe::take(train, 0, wanted > 0 ? wanted : train->size()),
            dataset(generated ? births::generate(births::kEvalRows, /*seed=*/2)
                              : births::read_csv(folder / "eval.csv")),
            /*test=*/nullptr};
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

  /// Sees the features alone, as a served model does.
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"weight", weights(replica, batch)}};
  }

 private:
  static torch::Tensor weights(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto& fields = batch.fields;
    return replica.model<WideAndDeep>().forward(fields[0], fields[1], fields[2], fields[3]);
  }

  static torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto weight = weights(replica, batch);          // [B, 1]
    const auto& target = batch.fields[kFeatures.size()];  // [B, 1]
    replica.metric("absolute_error").update((weight - target).abs());
    return replica.global_mean(replica.loss("squared_error")(weight, target));
  }

  /// Fields: the features int64 [N], then the label float32 [N, 1].
  static std::shared_ptr<const troupe::Dataset> dataset(const std::vector<births::Birth>& births) {
    const auto column = [&](auto read, torch::Dtype dtype) {
      std::vector<double> values;
      values.reserve(births.size());
      for (const births::Birth& birth : births) values.push_back(read(birth));
      return torch::tensor(values, torch::kFloat64).to(dtype);
    };
    using births::Birth;
    return std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{
        column([](const Birth& birth) { return birth.is_male; }, torch::kInt64),
        column([](const Birth& birth) { return birth.mother_age; }, torch::kInt64),
        column([](const Birth& birth) { return birth.plurality; }, torch::kInt64),
        column([](const Birth& birth) { return birth.gestation_weeks; }, torch::kInt64),
        column([](const Birth& birth) { return birth.weight_pounds; }, torch::kFloat32)
            .unsqueeze(1)});
  }

  const troupe::Options options_;
  const RegressionOptions mine_;
};
