// Rates per group, one of them 0; shapes that are easily forgotten; adapters beside frozen weights.
#include "tests/programs/nets.h"

namespace troupe::programs::groups {

/// Hidden layer slow, output fast, by Adam; or hidden layer not at all.
template <class Net>
std::shared_ptr<torch::optim::Adam> make_adam(Net& net, double hidden_rate) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net.hidden->parameters(),
                      std::make_unique<torch::optim::AdamOptions>(hidden_rate));
  groups.emplace_back(net.out->parameters(), std::make_unique<torch::optim::AdamOptions>(0.02));
  auto adam = std::make_shared<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
  static_cast<torch::optim::AdamOptions&>(adam->param_groups()[0].options()).lr(hidden_rate);
  static_cast<torch::optim::AdamOptions&>(adam->param_groups()[1].options()).lr(0.02);
  return adam;
}

Result plain(const Shares& shares, double hidden_rate) {
  const auto net = initialized(std::make_shared<NetImpl>());
  const auto adam = make_adam(*net, hidden_rate);
  auto losses = plain_loop(shares, *net, *adam, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class GroupHooks : public NetHooks<NetImpl> {
 public:
  explicit GroupHooks(double hidden_rate) : hidden_rate_(hidden_rate) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return {net, make_adam(*net, hidden_rate_)};
  }

 private:
  const double hidden_rate_;
};

const bool added_rates = add({"rates per group", [](const Shares& s) { return plain(s, 0.003); },
                              [] { return std::make_unique<GroupHooks>(0.003); }});
const bool added_zero = add({"rate 0", [](const Shares& s) { return plain(s, 0); },
                             [] { return std::make_unique<GroupHooks>(0); }});

/// A parameter without a dimension, and one of size 0.
struct ShapesImpl : NetImpl {
  ShapesImpl() {
    scale = register_parameter("scale", torch::ones({}, real()));
    none = register_parameter("none", torch::zeros({0, 3}, real()));
  }
  at::Tensor forward(const at::Tensor& x) { return scale * NetImpl::forward(x) + none.sum(); }
  at::Tensor scale, none;
};

Result plain_shapes(const Shares& shares) {
  const auto net = initialized(std::make_shared<ShapesImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added_shapes = add({"parameters of size 0 and without a dimension", plain_shapes,
                               [] { return std::make_unique<NetHooks<ShapesImpl>>(); }});

/// LoRA: the output layer's weight is frozen, and a product of two thin matrices is added to it.
struct AdaptedImpl : NetImpl {
  AdaptedImpl() {
    for (at::Tensor& parameter : parameters()) parameter.requires_grad_(false);
    down = register_module("down",
                           torch::nn::Linear(torch::nn::LinearOptions(kInputs, 2).bias(false)));
    up = register_module("up", torch::nn::Linear(torch::nn::LinearOptions(2, 8).bias(false)));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out->forward(torch::tanh(hidden->forward(x) + up->forward(down->forward(x))));
  }
  torch::nn::Linear down{nullptr}, up{nullptr};
};

std::vector<at::Tensor> trained(const AdaptedImpl& net) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : net.parameters())
    if (parameter.requires_grad()) all.push_back(parameter);
  return all;
}

Result plain_adapted(const Shares& shares) {
  const auto net = initialized(std::make_shared<AdaptedImpl>());
  torch::optim::AdamW adam(trained(*net), torch::optim::AdamWOptions(0.02));
  auto losses = plain_loop(shares, *net, adam, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class AdaptedHooks : public NetHooks<AdaptedImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<AdaptedImpl>());
    return {net,
            std::make_shared<torch::optim::AdamW>(trained(*net), torch::optim::AdamWOptions(0.02))};
  }
};

const bool added_adapted =
    add({"LoRA", plain_adapted, [] { return std::make_unique<AdaptedHooks>(); }});

}  // namespace troupe::programs::groups
