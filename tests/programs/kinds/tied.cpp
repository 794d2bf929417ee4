// A weight that two modules share: registered twice, listed twice by parameters(), or in two
// groups.
#include "tests/programs/nets.h"

namespace troupe::programs::tied {

/// An autoencoder whose decoder is the encoder turned round.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    first = register_module("first", torch::nn::Linear(kInputs, kInputs));
    second = register_module("second", torch::nn::Linear(kInputs, kInputs));
    second->weight = second->register_parameter("shared", first->weight);
    out = register_module("out", torch::nn::Linear(kInputs, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::tanh(first->forward(x));
    return out->forward(
        torch::tanh(torch::nn::functional::linear(hidden, first->weight, second->bias)));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, out{nullptr};
};

enum class Listed { once, twice, in_two_groups };

std::shared_ptr<torch::optim::SGD> make_sgd(const TiedImpl& net, Listed listed) {
  const auto options = torch::optim::SGDOptions(0.02).momentum(0.9);
  std::vector<at::Tensor> all = {net.first->weight, net.first->bias, net.second->bias,
                                 net.out->weight, net.out->bias};
  if (listed == Listed::twice) all.push_back(net.first->weight);
  if (listed != Listed::in_two_groups) return std::make_shared<torch::optim::SGD>(all, options);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(all);
  groups.emplace_back(std::vector<at::Tensor>{net.first->weight});
  return std::make_shared<torch::optim::SGD>(groups, options);
}

std::vector<NamedTensor> once_each(const TiedImpl& net) {
  return {{"first.weight", net.first->weight},
          {"second.bias", net.second->bias},
          {"out.weight", net.out->weight}};
}

Result plain(const Shares& shares, Listed listed) {
  const auto net = initialized(std::make_shared<TiedImpl>());
  const auto sgd = make_sgd(*net, listed);
  auto losses = plain_loop(shares, *net, *sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), once_each(*net)};
}

class TiedHooks : public NetHooks<TiedImpl> {
 public:
  explicit TiedHooks(Listed listed) : listed_(listed) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<TiedImpl>());
    return {net, make_sgd(*net, listed_)};
  }

 private:
  const Listed listed_;
};

Program program(const char* kind, Listed listed) {
  Program made{kind, [listed](const Shares& s) { return plain(s, listed); },
               [listed] { return std::make_unique<TiedHooks>(listed); }};
  if (listed != Listed::once)
    made.exceptions = in({Column::servers}, refused("has two optimisers, or one has it twice"));
  return made;
}

const bool added_once = add(program("tied weight", Listed::once));
const bool added_twice = add(program("tied weight, listed twice", Listed::twice));
const bool added_groups = add(program("tied weight, in two groups", Listed::in_two_groups));

}  // namespace troupe::programs::tied
