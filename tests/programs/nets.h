// What the programs train: a hidden layer is enough to tell layers, groups and modes apart.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/programs/program.h"

namespace troupe::programs {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kInputs, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return out->forward(torch::tanh(hidden->forward(x))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};

/// Hooks whose model is one Net, named "model", and whose optimiser steps all of it: what a program
/// changes of that it overrides.
template <class Net>
class NetHooks : public ProgramHooks {
 public:
  [[nodiscard]] Trainable create_model() const override {
    auto net = initialized(std::make_shared<Net>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.05).momentum(0.9))};
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return squares(replica.model<Net>().forward(rows.x), rows.y);
  }
};

/// The mean error of a net over all examples, in evaluation mode.
template <class Net>
double error_of(Net& net) {
  const torch::NoGradGuard no_grad;
  net.eval();
  const Rows all = all_rows();
  const double error = squares(net.forward(all.x), all.y).mean().template item<double>();
  net.train();
  return error;
}

/// The loop that the plain programs have in common: the mean of `losses_of(rows)` [B] over a batch,
/// one step of the optimiser.
template <class Net, class Losses>
std::vector<double> plain_loop(const Shares& shares, Net& /*net*/,
                               torch::optim::Optimizer& optimizer, const Losses& losses_of) {
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(optimizer);
    double total = 0;
    for (const Rows& rows : shares.of(step)) {
      const at::Tensor loss = losses_of(rows, step).sum() / kBatch;
      backward(loss);
      total += loss.template item<double>();
    }
    optimizer.step();
    losses.push_back(total);
  }
  return losses;
}

}  // namespace troupe::programs
