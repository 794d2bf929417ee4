// Gradients of gradients, gradients that the program makes, and what depends on the inputs.
#include "tests/programs/nets.h"

namespace troupe::programs::gradients {

/// The error, and the square of the derivative by the inputs: a penalty, as in a PINN.
at::Tensor penalized(NetImpl& net, const Rows& rows) {
  const at::Tensor x = rows.x.detach().clone().requires_grad_();
  const at::Tensor y = net.forward(x);
  const at::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                                 /*create_graph=*/true)[0];
  return squares(y, rows.y) + 0.1 * slope.pow(2).sum(1);
}

Result plain(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(shares, *net, sgd,
                           [&](const Rows& rows, std::int64_t) { return penalized(*net, rows); });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class PenalizedHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss =
        replica.global_mean(penalized(replica.model<NetImpl>(), rows_of(batch)));
    replica.apply_gradients(loss);
    return loss;
  }
};

const bool added_penalty =
    add({"gradient through a gradient", plain, [] { return std::make_unique<PenalizedHooks>(); }});

/// Clipping by example: gradients that no loss has, made with torch::autograd::grad.
std::vector<at::Tensor> clipped(NetImpl& net, const at::Tensor& each, double weight) {
  std::vector<at::Tensor> sum;
  for (std::int64_t i = 0; i < each.size(0); ++i) {
    auto one = torch::autograd::grad({each[i]}, net.parameters(), {}, /*retain_graph=*/true);
    double norm = 0;
    for (const at::Tensor& gradient : one) norm += gradient.pow(2).sum().item<double>();
    const double factor = std::min(1.0, 0.5 / std::sqrt(norm)) * weight;
    for (std::size_t p = 0; p < one.size(); ++p) {
      if (sum.size() <= p) {
        sum.push_back(one[p] * factor);
      } else {
        sum[p] += one[p] * factor;
      }
    }
  }
  return sum;
}

Result plain_clipped(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Rows rows = shares.of(step).front();
    const at::Tensor each = squares(net->forward(rows.x), rows.y);
    const auto made = clipped(*net, each, 1.0 / kBatch);
    auto parameters = net->parameters();
    for (std::size_t p = 0; p < made.size(); ++p) parameters[p].mutable_grad() = made[p];
    sgd.step();
    losses.push_back(each.mean().item<double>());
  }
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class ClippedHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& net = replica.model<NetImpl>();
    const at::Tensor each = squares(net.forward(rows.x), rows.y);
    const at::Tensor loss = replica.global_mean(each);
    // What global_mean would divide by: its value over the sum.
    const double weight = loss.item<double>() / each.sum().item<double>();
    replica.apply_gradients(clipped(net, each, weight));
    return loss;
  }
};

const bool added_clipped =
    add({"clipping by example", plain_clipped, [] { return std::make_unique<ClippedHooks>(); }});

}  // namespace troupe::programs::gradients
