// template/my_hooks.h -- fill in the TODOs; `troupe new DIR --from mnist` writes a completed one.
// As shipped, it compiles, lists the open TODOs, and exits with code 2.
// Shapes: B = examples in this replica's batch.
#pragma once

#include "troupe.h"

// TODO 1. Your own options, in addition to Troupe's (see --help). A flag by its name alone is one
// of Troupe's that only programs have whose hooks read it: momentum, weight-decay, data-dir and
// train-examples are the others.
struct MyOptions : troupe::Options {
  std::int64_t hidden_units = 64;

  MyOptions(int argc, const char* const* argv) {
    troupe::Options& parsed = *this;
    parsed = troupe::parse_options(
        argc, argv,
        {troupe::flag("learning-rate"),
         troupe::flag("hidden-units", &hidden_units, "units of the hidden layer")});
  }
};

class MyHooks final : public troupe::Hooks {
 public:
  explicit MyHooks(const MyOptions& options) : options_(options) {}

  // TODO 2. Per-example losses by name: predictions and targets [B, ...] -> [B], not a mean.
  //   return {{"mse", [](const torch::Tensor& y, const torch::Tensor& target) {
  //              return (y - target).pow(2).flatten(1).mean(1);
  //            }}};
  troupe::LossSet create_losses() const override {
    return troupe::todo(2, "create_losses: return your per-example losses");
  }

  // TODO 3. Metrics by name; each phase gets its own set.
  //   return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  troupe::MetricSet create_metrics() const override {
    return troupe::todo(3, "create_metrics: return your metrics, or {} for none");
  }

  // TODO 4. The network and its optimiser; for several of each use add_model and add_optimizer.
  //   auto net = std::make_shared<Net>(options_.hidden_units);
  //   return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
  //                                                    options_.train.learning_rate)};
  troupe::Trainable create_model() const override {
    return troupe::todo(4, "create_model: return your network and its optimiser");
  }

  // TODO 5. Training, validation and test data, identical on every worker; fields [N, ...].
  //   const auto train = std::make_shared<troupe::TensorDataset>(
  //       std::vector<torch::Tensor>{inputs, targets});
  //   return {train, /*validation=*/nullptr, test};
  troupe::Splits create_datasets() const override {
    return troupe::todo(5, "create_datasets: return your data sets");
  }

  // TODO 6. One training step, and the same step without learning: forward() below. B >= 1.
  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);  // backward; sum gradients over all workers; optimiser step
    return loss;
  }
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

  // TODO 7. The test step, if it differs; without this override validation_step is used.
  //   return forward(replica, batch);
  troupe::StepResult test_step(troupe::Replica&, const troupe::Batch&) const override {
    return troupe::todo(7, "test_step: return the loss, or delete this override");
  }

  // TODO 8, for --mode predict, export and train_and_evaluate only. Outputs by name, each [B, ...].
  //   return {{"y", replica.model<Net>().forward(batch.fields[0])}};
  troupe::Predictions predict_step(troupe::Replica&, const troupe::Batch&) const override {
    return troupe::todo(8, "predict_step: return your outputs");
  }

 private:
  //   const auto [inputs, targets] = batch.unpack<2>();
  //   const auto outputs = replica.model<Net>().forward(inputs);
  //   return replica.global_mean(replica.loss("mse")(outputs, targets));
  torch::Tensor forward(troupe::Replica&, const troupe::Batch&) const {
    return troupe::todo(6, "forward: return the loss, update the metrics");
  }

  const MyOptions options_;
};
