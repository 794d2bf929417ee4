// StatefulHooks: a task of which every part has state that a checkpoint must hold.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tests/support/tiny_hooks.h"

namespace troupe::testing {

/// Everything that has state: batch norm (buffers), dropout (random numbers), an optimiser.
class StatefulHooks final : public TinyHooks {
 public:
  explicit StatefulHooks(std::string optimizer, std::int64_t examples = 14)
      : TinyHooks(examples), optimizer_(std::move(optimizer)) {}

  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 8));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
    torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
    torch::Tensor forward(const torch::Tensor& x) { return out(dropout(torch::relu(norm(in(x))))); }
  };

  [[nodiscard]] Trainable create_model() const override {
    namespace o = torch::optim;
    auto net = std::make_shared<Net>();
    const auto p = net->parameters();
    std::shared_ptr<o::Optimizer> made;
    if (optimizer_ == "SGD") made = std::make_shared<o::SGD>(p, o::SGDOptions(0.02).momentum(0.9));
    if (optimizer_ == "Adam") {
      made = std::make_shared<o::Adam>(p, o::AdamOptions(0.02).amsgrad(true).weight_decay(0.01));
    }
    if (optimizer_ == "AdamW") made = std::make_shared<o::AdamW>(p, o::AdamWOptions(0.02));
    if (optimizer_ == "RMSprop") {
      made = std::make_shared<o::RMSprop>(p, o::RMSpropOptions(0.02).momentum(0.5).centered(true));
    }
    if (optimizer_ == "Adagrad") made = std::make_shared<o::Adagrad>(p, o::AdagradOptions(0.02));
    if (optimizer_ == "Unknown") made = std::make_shared<Unknown>(p, o::SGDOptions(0.02));
    return {net, made};
  }

 protected:
  [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }

 private:
  std::string optimizer_;
};

}  // namespace troupe::testing
