// examples/mnist/mnist_hooks.h -- template/my_hooks.h, filled in for MNIST.
// Shapes: B = examples in this replica's batch. Result: see README.md (recorded run, with command).
#pragma once

#include "examples/digits/example_data.h"
#include "troupe.h"

struct Net final : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};

  Net() {
    conv = register_module("conv", torch::nn::Conv2d(1, 32, /*kernel_size=*/3));
    hidden = register_module("hidden", torch::nn::Linear(32 * 13 * 13, 64));
    output = register_module("output", torch::nn::Linear(64, 10));
  }

  torch::Tensor forward(torch::Tensor x) {             // [B, 1, 28, 28]
    x = torch::max_pool2d(torch::relu(conv(x)), 2);    // [B, 32, 13, 13]
    return output(torch::relu(hidden(x.flatten(1))));  // [B, 10] logits
  }
};

class MnistHooks : public troupe::Hooks {
 public:
  explicit MnistHooks(const troupe::Options& options) : options_(options) {}

  /// Settings of Troupe's that these hooks read.
  static std::vector<troupe::Flag> flags() {
    return {troupe::flag("learning-rate"), troupe::flag("momentum"), troupe::flag("weight-decay"),
            troupe::flag("data-dir"), troupe::flag("train-examples")};
  }

  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& logits, const torch::Tensor& labels) {
               return torch::nn::functional::cross_entropy(
                   logits, labels,
                   torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
             }}};  // [B]: one loss per example, never a mean (see global_mean below)
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  }

  troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    auto sgd = std::make_shared<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(options_.train.learning_rate)
                               .momentum(options_.train.momentum)
                               .weight_decay(options_.train.weight_decay));
    return {net, sgd};
  }

  troupe::Splits create_datasets() const override {
    return troupe::mnist_or_digits(options_.data, /*validation_examples=*/5000);
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);  // backward; sum gradients over all workers; optimiser step
    return loss;
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);  // eval mode, gradients off. test_step() defaults to this.
  }

  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"logits", replica.model<Net>().forward(batch.fields[0])}};
  }

 private:
  torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) const {
    const auto [images, labels] = batch.unpack<2>();
    const auto logits = replica.model<Net>().forward(images);
    replica.metric("accuracy").update(logits, labels);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }

  const troupe::Options options_;
};
