// Programs that are public, written anew: a C++ transfer learning whose backbone is a frozen
// TorchScript-like module (pytorch/examples), VQ-VAE (koba-jon/pytorch_cpp) with a codebook that is
// learned by its own loss, and TorchFort's soft actor-critic with two critics and targets.
#include "tests/programs/nets.h"

namespace troupe::programs::moved {

torch::optim::SGDOptions options(double rate) {
  return torch::optim::SGDOptions(rate).momentum(0.9);
}

// --- transfer learning: features of a backbone that is in evaluation mode for ever, a new head

struct TransferImpl : torch::nn::Module {
  TransferImpl() {
    backbone = register_module(
        "backbone",
        torch::nn::Sequential(torch::nn::Linear(kInputs, 12), torch::nn::BatchNorm1d(12),
                              torch::nn::ReLU(), torch::nn::Dropout(0.5)));
    head = register_module("head", torch::nn::Linear(12, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return head->forward(backbone->forward(x)); }
  void freeze() {
    backbone->eval();
    for (at::Tensor& weight : backbone->parameters()) weight.requires_grad_(false);
  }
  torch::nn::Sequential backbone{nullptr};
  torch::nn::Linear head{nullptr};
};

std::shared_ptr<TransferImpl> transfer_net() {
  auto net = initialized(std::make_shared<TransferImpl>());
  net->freeze();
  return net;
}

double transfer_error(TransferImpl& net) {
  const double error = error_of(net);
  net.freeze();
  return error;
}

Result plain_transfer(const Shares& cut) {
  const auto net = transfer_net();
  torch::optim::Adam adam(net->head->parameters(), torch::optim::AdamOptions(0.01));
  auto losses = plain_loop(cut, *net, adam, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), transfer_error(*net), tensors_of(*net)};
}

class TransferHooks : public NetHooks<TransferImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = transfer_net();
    return {net, std::make_shared<torch::optim::Adam>(net->head->parameters(),
                                                      torch::optim::AdamOptions(0.01))};
  }
};

const bool added_transfer = add(
    {"moved: transfer learning", plain_transfer, [] { return std::make_unique<TransferHooks>(); }});

// --- VQ-VAE: the nearest codeword, gradients straight through, a loss for codebook and encoder
// each

struct QuantizedImpl : torch::nn::Module {
  QuantizedImpl() {
    encoder = register_module("encoder", torch::nn::Linear(kInputs, 4));
    codebook = register_module("codebook", torch::nn::Embedding(5, 4));
    decoder = register_module("decoder", torch::nn::Linear(4, kInputs));
  }
  /// [B], of reconstruction, codebook and commitment.
  at::Tensor losses(const at::Tensor& x) {
    const at::Tensor z = encoder->forward(x);
    const at::Tensor nearest = torch::cdist(z.detach(), codebook->weight.detach()).argmin(1);
    const at::Tensor word = codebook->forward(nearest);
    const at::Tensor through = z + (word - z).detach();
    return (decoder->forward(through) - x).pow(2).mean(1) + (word - z.detach()).pow(2).mean(1) +
           0.25 * (z - word.detach()).pow(2).mean(1);
  }
  torch::nn::Linear encoder{nullptr}, decoder{nullptr};
  torch::nn::Embedding codebook{nullptr};
};

double quantized_error(QuantizedImpl& net) {
  const torch::NoGradGuard no_grad;
  return net.losses(all_rows().x).mean().item<double>();
}

Result plain_quantized(const Shares& cut) {
  const auto net = initialized(std::make_shared<QuantizedImpl>());
  torch::optim::SGD sgd(net->parameters(), options(0.05));
  auto losses = plain_loop(cut, *net, sgd,
                           [&](const Rows& rows, std::int64_t) { return net->losses(rows.x); });
  return {std::move(losses), quantized_error(*net), tensors_of(*net)};
}

class QuantizedHooks : public ProgramHooks {
 public:
  [[nodiscard]] Trainable create_model() const override {
    auto net = initialized(std::make_shared<QuantizedImpl>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options(0.05))};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss =
        replica.global_mean(replica.model<QuantizedImpl>().losses(rows_of(batch).x));
    replica.apply_gradients(loss);
    return loss;
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return replica.model<QuantizedImpl>().losses(rows.x);
  }
};

const bool added_quantized =
    add({"moved: VQ-VAE", plain_quantized, [] { return std::make_unique<QuantizedHooks>(); }});

// --- soft actor-critic on replayed rows: one loss for two critics, then the actor against the new
// critics, then targets that follow

struct AgentImpl : torch::nn::Module {
  AgentImpl() {
    actor = register_module("actor", torch::nn::Linear(kInputs - 1, 1));
    for (const char* name : {"one", "other"})
      critics.push_back(register_module(name, torch::nn::Linear(kInputs, 1)));
  }
  /// State and action: the first columns and the last one of x.
  static at::Tensor state(const Rows& rows) { return rows.x.narrow(1, 0, kInputs - 1); }
  at::Tensor act(const Rows& rows) { return torch::tanh(actor->forward(state(rows))); }
  /// The lower of both critics' worth of an action, [B, 1].
  at::Tensor worth(const Rows& rows, const at::Tensor& action) {
    const at::Tensor pair = torch::cat({state(rows), action}, 1);
    return torch::min(critics[0]->forward(pair), critics[1]->forward(pair));
  }
  at::Tensor critic_losses(const Rows& rows, AgentImpl& target) {
    at::Tensor goal;
    {
      const torch::NoGradGuard no_grad;
      goal = rows.y + 0.9 * target.worth(rows, target.act(rows));
    }
    return squares(critics[0]->forward(rows.x), goal) + squares(critics[1]->forward(rows.x), goal);
  }
  at::Tensor actor_losses(const Rows& rows) { return -worth(rows, act(rows)).squeeze(1); }
  std::vector<at::Tensor> critic_parameters() {
    std::vector<at::Tensor> all = critics[0]->parameters();
    for (const at::Tensor& weight : critics[1]->parameters()) all.push_back(weight);
    return all;
  }
  torch::nn::Linear actor{nullptr};
  std::vector<torch::nn::Linear> critics;
};

void follow(AgentImpl& target, AgentImpl& agent) {
  const torch::NoGradGuard no_grad;
  const auto from = agent.parameters();
  auto into = target.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) into[i].lerp_(from[i], 0.1);
}

/// `together`: all gradients at the weights that the step began with.
Result plain_agent(const Shares& cut, bool together) {
  const auto agent = initialized(std::make_shared<AgentImpl>());
  const auto target = initialized(std::make_shared<AgentImpl>());
  torch::optim::SGD critics(agent->critic_parameters(), options(0.02));
  torch::optim::SGD actor(agent->actor->parameters(), options(0.02));
  std::vector<double> losses;
  const auto clear = [&] {
    clear_gradients(critics);
    clear_gradients(actor);
  };
  const auto of_actor = [&](std::int64_t step) {
    std::vector<at::Tensor> gradients;
    for (const Rows& rows : cut.of(step)) {
      const at::Tensor loss = agent->actor_losses(rows).sum() / kBatch;
      const FullPrecision pass(at::kCPU);
      const auto made = torch::autograd::grad({loss}, agent->actor->parameters());
      for (std::size_t i = 0; i < made.size(); ++i) {
        if (gradients.size() <= i) gradients.push_back(torch::zeros_like(made[i]));
        gradients[i] += made[i];
      }
    }
    return gradients;
  };
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear();
    double total = 0;
    for (const Rows& rows : cut.of(step)) {
      const at::Tensor loss = agent->critic_losses(rows, *target).sum() / kBatch;
      backward(loss);
      total += loss.item<double>();
    }
    std::vector<at::Tensor> made;
    if (together) made = of_actor(step);
    critics.step();
    if (!together) made = of_actor(step);
    auto parameters = agent->actor->parameters();
    for (std::size_t i = 0; i < made.size(); ++i) parameters[i].mutable_grad() = made[i];
    actor.step();
    follow(*target, *agent);
    losses.push_back(total);
  }
  const torch::NoGradGuard no_grad;
  auto tensors = tensors_of(*agent);
  for (const NamedTensor& tensor : tensors_of(*target, "target.")) tensors.push_back(tensor);
  return {std::move(losses), agent->actor_losses(all_rows()).mean().item<double>(), tensors};
}

class AgentHooks : public ProgramHooks {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto agent = initialized(std::make_shared<AgentImpl>());
    return Trainable()
        .add_model("model", agent)
        .add_optimizer("critics", std::make_shared<torch::optim::SGD>(agent->critic_parameters(),
                                                                      options(0.02)))
        .add_optimizer(
            "actor", std::make_shared<torch::optim::SGD>(agent->actor->parameters(), options(0.02)))
        .add_frozen("target", initialized(std::make_shared<AgentImpl>()));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& agent = replica.model<AgentImpl>();
    const at::Tensor loss =
        replica.global_mean(agent.critic_losses(rows, replica.model<AgentImpl>("target")));
    replica.apply_gradients(loss, "critics");
    const at::Tensor value = replica.global_mean(agent.actor_losses(rows));
    replica.apply_gradients(value, "actor");
    return {{"loss", loss}, {"actor", value}};
  }
  void after_step(Replica& replica) const override {
    follow(replica.model<AgentImpl>("target"), replica.model<AgentImpl>());
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return replica.model<AgentImpl>().actor_losses(rows);
  }
};

const bool added_agent =
    add({"moved: soft actor-critic", [](const Shares& cut) { return plain_agent(cut, false); },
         [] { return std::make_unique<AgentHooks>(); },
         in(kRepeated, Expected{Expected::Kind::simultaneous}),
         [](const Shares& cut) { return plain_agent(cut, true); }});

// --- what is drawn in the hook: repeatable, and a draw of its own at each width

struct DroppedImpl : torch::nn::Module {
  DroppedImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kInputs, 8));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out->forward(dropout->forward(torch::tanh(hidden->forward(x))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// An encoder's mean and noise, as a VAE draws.
struct NoisyImpl : torch::nn::Module {
  NoisyImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kInputs, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor mean = hidden->forward(x);
    return out->forward(is_training() ? mean + 0.1 * torch::randn_like(mean) : mean);
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};

template <class Net>
Result no_plain(const Shares& /*cut*/) {
  return {};
}

std::map<Column, Expected> drawn() {
  std::map<Column, Expected> all;
  for (const auto& [column, title] : columns()) all[column] = {Expected::Kind::own_draws};
  for (const Column column : {Column::replicas, Column::two_by_two})
    all[column].text = "replicas share LibTorch's one generator, in any order";
  return all;
}

const bool added_dropout = add({"dropout", no_plain<DroppedImpl>,
                                [] { return std::make_unique<NetHooks<DroppedImpl>>(); }, drawn()});
const bool added_noise = add({"noise drawn in the hook", no_plain<NoisyImpl>,
                              [] { return std::make_unique<NetHooks<NoisyImpl>>(); }, drawn()});

}  // namespace troupe::programs::moved
