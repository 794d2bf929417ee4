// What the training benchmark trains: three models of different weight, on data in memory.
//   cnn      the network of examples/mnist on digits: 347 thousand parameters
//   mlp      four wide layers: 25 million parameters, so little compute for so many gradients
//   resnet   ResNet-18 on noise of 32x32 pixels: 11 million parameters, much compute
// bench/peers/ddp.py has the same in Python. Shapes: B = examples in this replica's batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/digits/example_data.h"
#include "examples/mnist/mnist_hooks.h"
#include "examples/resnet/resnet.h"
#include "troupe.h"

namespace troupe::bench {

struct Mlp final : torch::nn::Module {
  torch::nn::Sequential layers;

  Mlp() {
    std::int64_t in = 784;
    for (const std::int64_t out : {3072, 3072, 3072, 1024}) {
      layers->push_back(torch::nn::Linear(in, out));
      layers->push_back(torch::nn::ReLU());
      in = out;
    }
    layers->push_back(torch::nn::Linear(in, 10));
    register_module("layers", layers);
  }

  torch::Tensor forward(torch::Tensor x) { return layers->forward(x); }  // [B, 784] to [B, 10]
};

class Model final : public torch::nn::Module {
 public:
  /// Throws: ConfigError for a name that is none of the three.
  explicit Model(const std::string& name) : net_(make(name)) { register_module("net", net_.ptr()); }
  torch::Tensor forward(const torch::Tensor& x) { return net_.forward(x); }  // [B, 10] logits

 private:
  static torch::nn::AnyModule make(const std::string& name) {
    using namespace torch::nn;
    if (name == "cnn") return AnyModule(std::make_shared<Net>());
    if (name == "mlp") return AnyModule(std::make_shared<Mlp>());
    if (name == "resnet") {
      const auto norm = [](std::int64_t channels) { return AnyModule(BatchNorm2d(channels)); };
      return AnyModule(std::make_shared<ResNet>(64, 10, norm));
    }
    throw ConfigError("--model is '" + name + "'.", "give cnn, mlp or resnet.");
  }

  torch::nn::AnyModule net_;
};

/// One loss per example, never a mean.  Shapes: logits [B, 10], labels [B] to [B].
inline torch::Tensor losses_of(const torch::Tensor& logits, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(
      logits, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
}

/// The template filled in, with everything that the example has: loss, metric, optimiser.
class ModelHooks final : public Hooks {
 public:
  /// `adam`: it trains by Adam instead of SGD.
  ModelHooks(std::string name, const Options& options, bool adam = false)
      : name_(std::move(name)), options_(options), adam_(adam) {}

  LossSet create_losses() const override { return {{"cross_entropy", losses_of}}; }
  MetricSet create_metrics() const override { return MetricSet().add<Accuracy>("accuracy"); }
  Trainable create_model() const override {
    auto model = std::make_shared<Model>(name_);
    if (adam_) {
      return {model,
              std::make_shared<torch::optim::Adam>(
                  model->parameters(), torch::optim::AdamOptions(options_.train.learning_rate))};
    }
    auto sgd = std::make_shared<torch::optim::SGD>(
        model->parameters(),
        torch::optim::SGDOptions(options_.train.learning_rate).momentum(options_.train.momentum));
    return {model, sgd};
  }
  /// Training data alone: nothing interrupts the steps.
  Splits create_datasets() const override {
    if (name_ == "cnn") return {mnist_or_digits(options_.data, 0).train, nullptr, nullptr};
    const std::int64_t count = 4096;
    const auto shape = name_ == "mlp" ? std::vector<std::int64_t>{count, 784}
                                      : std::vector<std::int64_t>{count, 3, 32, 32};
    auto generator = at::detail::createCPUGenerator(/*seed=*/7);
    return {
        std::make_shared<TensorDataset>(std::vector<torch::Tensor>{
            torch::rand(shape, generator), torch::randint(10, {count}, generator, torch::kLong)}),
        nullptr, nullptr};
  }
  StepResult train_step(Replica& replica, const Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  StepResult validation_step(Replica& replica, const Batch& batch) const override {
    return forward(replica, batch);
  }

 private:
  static torch::Tensor forward(Replica& replica, const Batch& batch) {
    const auto [x, labels] = batch.unpack<2>();
    const auto logits = replica.model<Model>().forward(x);
    replica.metric("accuracy").update(logits, labels);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }

  std::string name_;
  const Options options_;
  const bool adam_;
};

}  // namespace troupe::bench
