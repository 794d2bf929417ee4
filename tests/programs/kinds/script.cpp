// A model that TorchScript has written, in the place of one of C++.
#include <torch/script.h>

#include "tests/programs/nets.h"
#include "troupe/hooks/tensors/script_model.h"

namespace troupe::programs::script {

torch::jit::Module linear(const torch::nn::Linear& like) {
  torch::jit::Module layer("Linear");
  layer.register_parameter("weight", like->weight, /*is_buffer=*/false);
  layer.register_parameter("bias", like->bias, /*is_buffer=*/false);
  layer.define("def forward(self, x):\n  return torch.addmm(self.bias, x, self.weight.t())\n");
  return layer;
}

/// A Net.
std::shared_ptr<ScriptModel> scripted_net() {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::jit::Module whole("Net");
  whole.register_attribute("training", c10::BoolType::get(), true);
  whole.register_module("hidden", linear(net->hidden));
  whole.register_module("out", linear(net->out));
  whole.define(
      "def forward(self, x):\n  return self.out.forward(torch.tanh(self.hidden.forward(x)))\n");
  return std::make_shared<ScriptModel>(whole);
}

torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

/// The same in C++.
Result plain(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class Scripted final : public ProgramHooks {
 public:
  [[nodiscard]] Trainable create_model() const override {
    auto net = scripted_net();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return squares(replica.model<ScriptModel>().forward(rows.x), rows.y);
  }
};

const bool added =
    add({"a model of TorchScript", plain, [] { return std::make_unique<Scripted>(); }});

}  // namespace troupe::programs::script
