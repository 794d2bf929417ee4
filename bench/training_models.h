// What the training benchmark trains: four models of different weight, on data in memory.
//   cnn      the network of examples/mnist on digits: 347 thousand parameters
//   mlp      four wide layers: 25 million parameters, so little compute for so many gradients
//   resnet   ResNet-18 on noise of 32x32 pixels: 11 million parameters, much compute
//   transformer  an encoder of six layers, width 256, 8 heads, on sequences of 128 random tokens:
//                5 million parameters
// bench/peers/ddp.py has the same in Python. Shapes: B = examples in this replica's batch.
#pragma once

#include <algorithm>
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

struct Transformer final : torch::nn::Module {
  static constexpr std::int64_t kTokens = 1000, kLength = 128, kWidth = 256;
  torch::nn::Embedding tokens{kTokens, kWidth};
  torch::nn::TransformerEncoder layers{nullptr};
  torch::nn::Linear head{kWidth, 10};
  torch::Tensor places;  // [128, 256]

  Transformer() {
    const auto layer =
        torch::nn::TransformerEncoderLayerOptions(kWidth, 8).dim_feedforward(4 * kWidth).dropout(0);
    layers = torch::nn::TransformerEncoder(
        torch::nn::TransformerEncoderOptions(torch::nn::TransformerEncoderLayer(layer), 6));
    register_module("tokens", tokens);
    places = register_parameter("places", 0.02 * torch::randn({kLength, kWidth}));
    register_module("layers", layers);
    register_module("head", head);
  }

  torch::Tensor forward(torch::Tensor x) {  // tokens [B, 128] to [B, 10]
    // Layers take [128, B, 256].
    const auto features = (tokens->forward(x) + places).transpose(0, 1);
    return head->forward(layers->forward(features).mean(0));
  }
};

class Model final : public torch::nn::Module {
 public:
  /// Throws: ConfigError for a name that is none of the four.
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
    if (name == "transformer") return AnyModule(std::make_shared<Transformer>());
    throw ConfigError("--model is '" + name + "'.", "give cnn, mlp, resnet or transformer.");
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
    if (name_ == "cnn") return {drawn_digits(), nullptr, nullptr};
    const std::int64_t count = 4096;
    auto generator = at::detail::createCPUGenerator(/*seed=*/7);
    torch::Tensor x;
    if (name_ == "mlp") {
      x = torch::rand({count, 784}, generator);
    } else if (name_ == "transformer") {
      x = torch::randint(Transformer::kTokens, {count, Transformer::kLength}, generator,
                         torch::kLong);
    } else {
      x = torch::rand({count, 3, 32, 32}, generator);
    }
    const auto labels = torch::randint(10, {count}, generator, torch::kLong);
    return {std::make_shared<TensorDataset>(std::vector<torch::Tensor>{x, labels}), nullptr,
            nullptr};
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
  /// They are drawn when they are first read, 25 us each: here, before anything is measured.
  std::shared_ptr<const Dataset> drawn_digits() const {
    constexpr std::int64_t kAtOnce = 1000;
    const auto digits = mnist_or_digits(options_.data, 0).train;
    for (std::int64_t i = 0; i < digits->size(); i += kAtOnce) {
      (void)digits->get(torch::arange(i, std::min(i + kAtOnce, digits->size())));
    }
    return digits;
  }

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
