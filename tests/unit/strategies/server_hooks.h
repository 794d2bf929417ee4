// Hooks for parameter servers: a small model with every kind of parameter that servers see, under
// each optimiser; and a table of rows of which a batch uses a few.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/tiny_hooks.h"

namespace troupe::testing {

class ServerHooks final : public TinyHooks {
 public:
  /// sgd, adam, adamw, rmsprop, adagrad; groups (two with other options); two (optimisers).
  explicit ServerHooks(std::string kind, std::int64_t examples = 22)
      : TinyHooks(examples), kind_(std::move(kind)) {}

  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 7));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(7, 1));
    torch::Tensor scale = register_parameter("scale", torch::tensor(1.5F));  // a scalar
    torch::Tensor fixed =
        register_parameter("fixed", torch::full({1}, 0.25F), /*requires_grad=*/false);
    torch::Tensor forward(const torch::Tensor& x) {
      return out(torch::tanh(in(x))) * scale + fixed;
    }
  };

  [[nodiscard]] Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    const torch::NoGradGuard no_grad;
    float start = 0.3F;
    for (auto& parameter : net->parameters()) {
      if (!parameter.requires_grad() || parameter.dim() == 0) continue;
      parameter.copy_(
          (torch::arange(parameter.numel(), torch::kFloat32) * 0.07F - start).view_as(parameter));
      start += 0.11F;
    }
    return with_optimizers(net);
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    auto loss = forward(replica, batch);
    replica.apply_gradients(loss, kind_ == "two" ? "first" : "optimizer");
    if (kind_ == "two") {
      loss = forward(replica, batch);
      replica.apply_gradients(loss, "second");
    }
    return loss;
  }

 protected:
  [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }

 private:
  [[nodiscard]] Trainable with_optimizers(const std::shared_ptr<Net>& net) const {
    namespace o = torch::optim;
    std::vector<at::Tensor> in = net->in->parameters();
    std::vector<at::Tensor> rest = net->out->parameters();
    rest.push_back(net->scale);
    std::vector<at::Tensor> all = in;
    all.insert(all.end(), rest.begin(), rest.end());
    if (kind_ == "sgd") {
      return {net,
              std::make_shared<o::SGD>(all, o::SGDOptions(0.02).momentum(0.9).weight_decay(0.01))};
    }
    if (kind_ == "adam") {
      return {net, std::make_shared<o::Adam>(all, o::AdamOptions(0.02).amsgrad(true))};
    }
    if (kind_ == "adamw") return {net, std::make_shared<o::AdamW>(all, o::AdamWOptions(0.02))};
    if (kind_ == "rmsprop") {
      return {net, std::make_shared<o::RMSprop>(
                       all, o::RMSpropOptions(0.01).momentum(0.5).centered(true))};
    }
    if (kind_ == "adagrad") {
      return {net, std::make_shared<o::Adagrad>(
                       all, o::AdagradOptions(0.05).initial_accumulator_value(0.1).lr_decay(0.1))};
    }
    if (kind_ == "unknown") return {net, std::make_shared<Unknown>(all, o::SGDOptions(0.1))};
    if (kind_ == "groups") {
      std::vector<o::OptimizerParamGroup> groups;
      groups.emplace_back(in, std::make_unique<o::SGDOptions>(o::SGDOptions(0.03).momentum(0.9)));
      groups.emplace_back(rest,
                          std::make_unique<o::SGDOptions>(o::SGDOptions(0.01).weight_decay(0.1)));
      return {net, std::make_shared<o::SGD>(groups, o::SGDOptions(0.5))};
    }
    return Trainable()
        .add_model("model", net)
        .add_optimizer("first", std::make_shared<o::SGD>(in, o::SGDOptions(0.02).momentum(0.9)))
        .add_optimizer("second", std::make_shared<o::Adam>(rest, o::AdamOptions(0.02)));
  }

  std::string kind_;
};

/// A table of `rows` x 4 with sparse gradients; a batch of B examples uses at most B rows.
class TableHooks final : public TinyHooks {
 public:
  TableHooks(std::int64_t rows, std::string kind, std::int64_t examples = 24)
      : TinyHooks(examples), rows_(rows), kind_(std::move(kind)), examples_(examples) {}

  struct Net final : torch::nn::Module {
    explicit Net(std::int64_t rows)
        : table(register_module(
              "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(rows, 4).sparse(true)))),
          out(register_module("out", torch::nn::Linear(4, 1))) {}
    torch::nn::Embedding table;
    torch::nn::Linear out;
  };

  [[nodiscard]] Trainable create_model() const override {
    namespace o = torch::optim;
    auto net = std::make_shared<Net>(rows_);
    const torch::NoGradGuard no_grad;
    net->table->weight.copy_(torch::arange(rows_ * 4, torch::kFloat32).view({rows_, 4}) % 11 / 10);
    net->out->weight.fill_(0.5);
    net->out->bias.fill_(0.1);
    const auto all = net->parameters();
    if (kind_ == "adagrad") return {net, std::make_shared<o::Adagrad>(all, 0.05)};
    const double momentum = kind_ == "momentum" ? 0.9 : 0.0;
    return {net, std::make_shared<o::SGD>(all, o::SGDOptions(0.05).momentum(momentum))};
  }
  [[nodiscard]] Splits create_datasets() const override {
    // Every example has a row of its own, some of them twice.
    const auto index = (torch::arange(examples_, torch::kInt64) * 7) % rows_;
    const auto target = torch::arange(examples_, torch::kFloat32).unsqueeze(1) / 5.0;
    const auto all = std::make_shared<TensorDataset>(std::vector<at::Tensor>{index, target});
    return {all, nullptr, all};
  }

 protected:
  [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& index) const override {
    auto& net = replica.model<Net>();
    return net.out(net.table(index));
  }

 private:
  std::int64_t rows_;
  std::string kind_;
  std::int64_t examples_;
};

}  // namespace troupe::testing
