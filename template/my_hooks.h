// template/my_hooks.h -- fill in the seven TODOs; examples/mnist/mnist_hooks.h is it filled in.
// As shipped it compiles, lists what is open, and exits with code 2.
// Shapes: B = examples in this replica's batch.
#pragma once

#include "troupe.h"

// TODO 1. Options of your own, beside Troupe's (--learning-rate, --batch-size, ...; see --help).
struct MyOptions {
  std::int64_t hidden_units = 64;

  std::vector<troupe::Flag> flags() {
    return {troupe::flag("hidden-units", &hidden_units, "units of the hidden layer")};
  }
};

class MyHooks final : public troupe::Hooks {
 public:
  MyHooks(const troupe::Options& options, const MyOptions& mine) : options_(options), mine_(mine) {}

  // TODO 2. Per-example losses by name: predictions and targets [B, ...] -> [B], not a mean.
  //   return {{"mse", [](const torch::Tensor& y, const torch::Tensor& target) {
  //              return (y - target).pow(2).flatten(1).mean(1);
  //            }}};
  troupe::LossSet create_losses() const override {
    return troupe::todo(2, "create_losses: return your per-example losses");
  }

  // TODO 3. Metrics by name; each phase gets its own.
  //   return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  troupe::MetricSet create_metrics() const override {
    return troupe::todo(3, "create_metrics: return your metrics, or {} for none");
  }

  // TODO 4. The network and its optimiser; several of each by add_model and add_optimizer.
  //   auto net = std::make_shared<Net>(mine_.hidden_units);
  //   return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
  //                                                    options_.train.learning_rate)};
  troupe::Trainable create_model() const override {
    return troupe::todo(4, "create_model: return your network and its optimiser");
  }

  // TODO 5. Training, validation and test data, the same on every worker; fields [N, ...].
  //   const auto train = std::make_shared<troupe::TensorDataset>(
  //       std::vector<torch::Tensor>{inputs, targets});
  //   return {train, /*validation=*/nullptr, test};
  troupe::Splits create_datasets() const override {
    return troupe::todo(5, "create_datasets: return your data sets");
  }

  // TODO 6. One step of training, and the same without learning. B >= 1.
  //   const auto loss = forward(replica, batch); replica.apply_gradients(loss); return loss;
  troupe::StepResult train_step(troupe::Replica&, const troupe::Batch&) const override {
    return troupe::todo(6, "train_step: return the loss after apply_gradients");
  }
  //   return forward(replica, batch);
  troupe::StepResult validation_step(troupe::Replica&, const troupe::Batch&) const override {
    return troupe::todo(6, "validation_step: return the loss, update the metrics");
  }

  // TODO 7. The step on test data, where it differs; without this override it is validation_step.
  //   return forward(replica, batch);
  troupe::StepResult test_step(troupe::Replica&, const troupe::Batch&) const override {
    return troupe::todo(7, "test_step: return the loss, or delete this override");
  }

 private:
  //   torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) const {
  //     const auto [inputs, targets] = batch.unpack<2>();
  //     const auto outputs = replica.model<Net>().forward(inputs);
  //     return replica.global_mean(replica.loss("mse")(outputs, targets));
  //   }
  const troupe::Options options_;
  const MyOptions mine_;
};
