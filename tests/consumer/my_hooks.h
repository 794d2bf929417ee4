// template/my_hooks.h, filled in as a stranger would: a line with noise, learned by a small
// network. Shapes: B = examples in this replica's batch.
#pragma once

#include "troupe.h"

struct MyOptions : troupe::Options {
  std::int64_t hidden_units = 8;

  MyOptions(int argc, const char* const* argv) {
    troupe::Options& parsed = *this;
    parsed = troupe::parse_options(
        argc, argv,
        {troupe::flag("learning-rate"),
         troupe::flag("hidden-units", &hidden_units, "units of the hidden layer")});
  }
};

struct Net final : torch::nn::Module {
  explicit Net(std::int64_t hidden) {
    first = register_module("first", torch::nn::Linear(2, hidden));
    second = register_module("second", torch::nn::Linear(hidden, 1));
  }
  auto forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }

  torch::nn::Linear first{nullptr}, second{nullptr};
};

class MyHooks final : public troupe::Hooks {
 public:
  explicit MyHooks(const MyOptions& options) : options_(options) {}

  troupe::LossSet create_losses() const override {
    return {{"mse", [](const torch::Tensor& y, const torch::Tensor& target) {
               return (y - target).pow(2).flatten(1).mean(1);  // [B]
             }}};
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("absolute_error");
  }

  troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>(options_.hidden_units);
    return {net,
            std::make_shared<torch::optim::SGD>(net->parameters(), options_.train.learning_rate)};
  }

  troupe::Splits create_datasets() const override {
    auto generator = at::detail::createCPUGenerator(/*seed=*/11);
    const auto inputs = torch::randn({260, 2}, generator);
    const auto targets = inputs.sum(1, /*keepdim=*/true);
    const auto all =
        std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{inputs, targets});
    return {troupe::take(all, 0, 200), troupe::take(all, 200, 60), /*test=*/nullptr};
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

  troupe::StepResult test_step(troupe::Replica& replica,
                               const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"y", replica.model<Net>().forward(batch.fields[0])}};
  }

 private:
  torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) const {
    const auto [inputs, targets] = batch.unpack<2>();
    const auto outputs = replica.model<Net>().forward(inputs);
    replica.metric("absolute_error").update((outputs - targets).abs());
    return replica.global_mean(replica.loss("mse")(outputs, targets));
  }

  const MyOptions options_;
};
