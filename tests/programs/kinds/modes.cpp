// Modules with two modes: batch norm, in training and kept in evaluation; a branch by step.
#include "tests/programs/nets.h"

namespace troupe::programs::modes {

struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kInputs, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out->forward(torch::relu(norm->forward(hidden->forward(x))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

std::shared_ptr<NormedImpl> make(bool keeps_eval) {
  auto net = initialized(std::make_shared<NormedImpl>());
  if (keeps_eval) net->norm->eval();
  return net;
}

/// Kept in evaluation mode the statistics are constants, and no share sees another.
Result plain_kept(const Shares& shares) {
  const auto net = make(true);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class NormedHooks : public NetHooks<NormedImpl> {
 public:
  explicit NormedHooks(bool keeps_eval) : keeps_eval_(keeps_eval) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = make(keeps_eval_);
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.05).momentum(0.9))};
  }

 private:
  const bool keeps_eval_;
};

const bool added_kept = add({"norm layers kept in evaluation mode", plain_kept,
                             [] { return std::make_unique<NormedHooks>(true); }});

/// A layer that is left out in every third step.
struct BranchedImpl : NetImpl {
  BranchedImpl() { side = register_module("side", torch::nn::Linear(kInputs, 1)); }
  at::Tensor forward(const at::Tensor& x) { return NetImpl::forward(x); }
  at::Tensor forward(const at::Tensor& x, std::int64_t step) {
    return step % 3 == 0 ? NetImpl::forward(x) : NetImpl::forward(x) + side->forward(x);
  }
  torch::nn::Linear side{nullptr};
};

Result plain_branched(const Shares& shares) {
  const auto net = initialized(std::make_shared<BranchedImpl>());
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t step) {
    return squares(net->forward(rows.x, step), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class BranchedHooks : public NetHooks<BranchedImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<BranchedImpl>());
    return {net, std::make_shared<torch::optim::SGD>(
                     net->parameters(),
                     torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01))};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& net = replica.model<BranchedImpl>();
    const at::Tensor loss =
        replica.global_mean(squares(net.forward(rows.x, replica.progress().step), rows.y));
    replica.apply_gradients(loss);
    return loss;
  }
};

const bool added_branch =
    add({"branch by step", plain_branched, [] { return std::make_unique<BranchedHooks>(); }});

}  // namespace troupe::programs::modes
