// Layers that are frozen from the start, and unfrozen at a step; a teacher that never trains.
#include "tests/programs/nets.h"

namespace troupe::programs::frozen {

void freeze(NetImpl& net, bool is_frozen) {
  for (at::Tensor& parameter : net.hidden->parameters()) parameter.requires_grad_(!is_frozen);
}

torch::optim::SGDOptions options() {
  return torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01);
}

/// `thaw`: the step from which all layers train.
Result plain(const Shares& shares, std::int64_t thaw) {
  const auto net = initialized(std::make_shared<NetImpl>());
  freeze(*net, true);
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t step) {
    if (step == thaw) freeze(*net, false);
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class FrozenHooks : public NetHooks<NetImpl> {
 public:
  explicit FrozenHooks(std::int64_t thaw) : thaw_(thaw) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    freeze(*net, true);
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    if (replica.progress().step >= thaw_) freeze(replica.model<NetImpl>(), false);
    return NetHooks<NetImpl>::train_step(replica, batch);
  }

 private:
  const std::int64_t thaw_;
};

const bool added_always =
    add({"frozen layers", [](const Shares& shares) { return plain(shares, kSteps); },
         [] { return std::make_unique<FrozenHooks>(kSteps); }});
const bool added_thawed =
    add({"unfrozen at a step", [](const Shares& shares) { return plain(shares, 9); },
         [] { return std::make_unique<FrozenHooks>(9); }});

/// Distillation: the student's target is half the teacher's answer.
at::Tensor target_of(const at::Tensor& y, const at::Tensor& taught) {
  return 0.5 * y + 0.5 * taught;
}

std::shared_ptr<NetImpl> make_teacher() {
  auto net = initialized(std::make_shared<NetImpl>());
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : net->parameters()) parameter.mul_(-1.5);
  return net;
}

Result distilled(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  const auto teacher = make_teacher();
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(shares, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), target_of(rows.y, teacher->forward(rows.x).detach()));
  });
  auto tensors = tensors_of(*net);
  for (const NamedTensor& tensor : tensors_of(*teacher, "teacher.")) tensors.push_back(tensor);
  return {std::move(losses), error_of(*net), tensors};
}

class DistillingHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return Trainable()
        .add_model("model", net)
        .add_optimizer("optimizer",
                       std::make_shared<torch::optim::SGD>(net->parameters(), options()))
        .add_frozen("teacher", make_teacher());
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& teacher = replica.model<NetImpl>("teacher");
    const at::Tensor target = target_of(rows.y, teacher.forward(rows.x));
    const at::Tensor loss =
        replica.global_mean(squares(replica.model<NetImpl>().forward(rows.x), target));
    replica.apply_gradients(loss);
    return loss;
  }
};

const bool added_teacher =
    add({"frozen teacher", distilled, [] { return std::make_unique<DistillingHooks>(); }});

}  // namespace troupe::programs::frozen
