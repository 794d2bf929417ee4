// examples/fine_tuning/fine_tuning_hooks.h -- a new head on a backbone that was trained elsewhere.
// The backbone is frozen at first, then learns at a tenth of the head's rate (docs/fine_tuning.md).
// Shapes: B = examples in this replica's batch.
#pragma once

#include "troupe.h"

struct Net final : torch::nn::Module {
  torch::nn::Sequential backbone{register_module(
      "backbone", torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                                        torch::nn::Linear(16, 8), torch::nn::Tanh()))};
  torch::nn::Linear head{register_module("head", torch::nn::Linear(8, 3))};

  Net() { to(torch::kFloat64); }
  torch::Tensor forward(const torch::Tensor& x) { return head(backbone->forward(x)); }  // [B, 3]
};

class FineTuningHooks final : public troupe::Hooks {
 public:
  FineTuningHooks(const troupe::Options& options, std::string table, std::int64_t thaw_epoch)
      : options_(options), table_(std::move(table)), thaw_epoch_(thaw_epoch) {}

  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& scores, const torch::Tensor& kinds) {
               return torch::nll_loss(torch::log_softmax(scores, 1), kinds, {},
                                      at::Reduction::None);
             }}};  // [B]
  }
  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  }
  troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    for (torch::Tensor& weight : net->backbone->parameters()) weight.requires_grad_(false);
    const auto rate = [](double lr) { return torch::optim::SGDOptions(lr).momentum(0.9); };
    const double lr = options_.train.learning_rate;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(net->backbone->parameters(),
                        std::make_unique<torch::optim::SGDOptions>(rate(lr / 10)));
    groups.emplace_back(net->head->parameters());
    return {net, std::make_shared<torch::optim::SGD>(groups, rate(lr))};
  }
  troupe::Splits create_datasets() const override {
    const auto all = troupe::load_csv(
        table_, {{troupe::csv_real("a"), troupe::csv_real("b"), troupe::csv_real("c"),
                  troupe::csv_real("d")},
                 {troupe::csv_category("kind", {"setosa", "versicolor", "virginica"})}});
    return {troupe::take(all, 0, 140), troupe::take(all, 140, 60), nullptr};
  }
  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    for (torch::Tensor& weight : replica.model<Net>().backbone->parameters())
      weight.requires_grad_(replica.progress().epoch >= thaw_epoch_);
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"scores", replica.model<Net>().forward(batch.fields[0].to(torch::kFloat64))}};
  }

 private:
  torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) const {
    const auto [x, kinds] = batch.unpack<2>();
    const auto scores = replica.model<Net>().forward(x.to(torch::kFloat64));
    replica.metric("accuracy").update(scores, kinds);
    return replica.global_mean(replica.loss("cross_entropy")(scores, kinds));
  }

  const troupe::Options options_;
  const std::string table_;
  const std::int64_t thaw_epoch_;
};
