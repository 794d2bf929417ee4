// Two networks against each other: both in a step, each with its own forward pass, or in turns.
#include "tests/programs/nets.h"

namespace troupe::programs::gan {

struct JudgeImpl : torch::nn::Module {
  JudgeImpl() {
    hidden = register_module("hidden", torch::nn::Linear(1, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& y) { return out->forward(torch::tanh(hidden->forward(y))); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};

struct Pair {
  std::shared_ptr<NetImpl> net = initialized(std::make_shared<NetImpl>());
  std::shared_ptr<JudgeImpl> judge = initialized(std::make_shared<JudgeImpl>());
  std::shared_ptr<torch::optim::Adam> of_net =
      std::make_shared<torch::optim::Adam>(net->parameters(), 0.01);
  std::shared_ptr<torch::optim::Adam> of_judge =
      std::make_shared<torch::optim::Adam>(judge->parameters(), 0.02);
};

/// [B]
at::Tensor judge_losses(JudgeImpl& judge, NetImpl& net, const Rows& rows) {
  return (judge.forward(rows.y) - 1).pow(2).squeeze(1) +
         judge.forward(net.forward(rows.x).detach()).pow(2).squeeze(1);
}
at::Tensor net_losses(JudgeImpl& judge, NetImpl& net, const Rows& rows) {
  return (judge.forward(net.forward(rows.x)) - 1).pow(2).squeeze(1);
}

enum class Order { one_by_one, simultaneous, in_turns };

Result plain(Order order) {
  Pair all;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Rows rows = Shares().of(step).front();
    clear_gradients(*all.of_judge);
    const at::Tensor judged = judge_losses(*all.judge, *all.net, rows).mean();
    if (order != Order::in_turns || step % 2 == 0) {
      backward(judged, all.judge->parameters());
      if (order != Order::simultaneous) all.of_judge->step();
    }
    clear_gradients(*all.of_net);
    const at::Tensor made = net_losses(*all.judge, *all.net, rows).mean();
    if (order != Order::in_turns || step % 2 == 1) {
      backward(made, all.net->parameters());
      if (order == Order::simultaneous) all.of_judge->step();
      all.of_net->step();
    }
    losses.push_back((order == Order::in_turns && step % 2 == 1 ? made : judged).item<double>());
  }
  auto tensors = tensors_of(*all.net);
  for (const NamedTensor& tensor : tensors_of(*all.judge, "judge.")) tensors.push_back(tensor);
  return {std::move(losses), error_of(*all.net), tensors};
}

class GanHooks : public NetHooks<NetImpl> {
 public:
  explicit GanHooks(Order order) : order_(order) {}
  [[nodiscard]] Trainable create_model() const override {
    const Pair made;
    return Trainable()
        .add_model("model", made.net)
        .add_model("judge", made.judge)
        .add_optimizer("of_judge", made.of_judge)
        .add_optimizer("of_net", made.of_net);
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& net = replica.model<NetImpl>();
    auto& judge = replica.model<JudgeImpl>("judge");
    const bool is_odd = replica.progress().step % 2 == 1;
    if (order_ == Order::in_turns && is_odd) {
      const at::Tensor made = replica.global_mean(net_losses(judge, net, rows));
      replica.apply_gradients(made, "of_net");
      return made;
    }
    const at::Tensor judged = replica.global_mean(judge_losses(judge, net, rows));
    replica.apply_gradients(judged, "of_judge");
    if (order_ == Order::in_turns) return judged;
    const at::Tensor made = replica.global_mean(net_losses(judge, net, rows));
    replica.apply_gradients(made, "of_net");
    return {{"loss", judged}, {"made", made}};
  }

 private:
  const Order order_;
};

const bool added_pair =
    add({"GAN, both in a step", [](const Shares&) { return plain(Order::one_by_one); },
         [] { return std::make_unique<GanHooks>(Order::one_by_one); },
         in(kRepeated, Expected{Expected::Kind::simultaneous}),
         [](const Shares&) { return plain(Order::simultaneous); }});
const bool added_turns = add({"GAN, in turns", [](const Shares&) { return plain(Order::in_turns); },
                              [] { return std::make_unique<GanHooks>(Order::in_turns); }});

}  // namespace troupe::programs::gan
