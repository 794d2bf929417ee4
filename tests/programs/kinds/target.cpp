// What follows the weights: target networks and averages, by after_step; in the step itself, once.
#include "tests/programs/nets.h"

namespace troupe::programs::target {

constexpr double kPull = 0.2;

void follow(NetImpl& target, NetImpl& net) {
  const torch::NoGradGuard no_grad;
  const auto from = net.parameters();
  auto into = target.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) into[i].lerp_(from[i], kPull);
}

at::Tensor losses_of(NetImpl& net, NetImpl& target, const Rows& rows) {
  return squares(net.forward(rows.x), rows.y + 0.3 * target.forward(rows.x).detach());
}

Result plain(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  const auto target = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(sgd);
    double total = 0;
    for (const Rows& rows : shares.of(step)) {
      const at::Tensor loss = losses_of(*net, *target, rows).sum() / kBatch;
      backward(loss);
      total += loss.item<double>();
    }
    sgd.step();
    follow(*target, *net);
    losses.push_back(total);
  }
  auto tensors = tensors_of(*net);
  for (const NamedTensor& tensor : tensors_of(*target, "target.")) tensors.push_back(tensor);
  return {std::move(losses), error_of(*net), tensors};
}

class TargetHooks : public NetHooks<NetImpl> {
 public:
  explicit TargetHooks(bool in_step) : in_step_(in_step) {}
  [[nodiscard]] Trainable create_model() const override {
    return NetHooks<NetImpl>::create_model().add_frozen("target",
                                                        initialized(std::make_shared<NetImpl>()));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    auto& net = replica.model<NetImpl>();
    auto& target = replica.model<NetImpl>("target");
    const at::Tensor loss = replica.global_mean(losses_of(net, target, rows_of(batch)));
    replica.apply_gradients(loss);
    if (in_step_) follow(target, net);
    return loss;
  }
  void after_step(Replica& replica) const override {
    if (!in_step_) follow(replica.model<NetImpl>("target"), replica.model<NetImpl>());
  }

 private:
  const bool in_step_;
};

const bool added_after =
    add({"target network, after_step", plain, [] { return std::make_unique<TargetHooks>(false); }});
const bool added_inside =
    add({"target network, in the step", plain, [] { return std::make_unique<TargetHooks>(true); },
         in(kRepeated, refused("which no optimiser owns"))});

}  // namespace troupe::programs::target
