// examples/actor_critic/actor_critic_hooks.h -- template/my_hooks.h, filled in for decisions on a
// table: a critic learns what each action is worth in every step, and an actor learns from it what
// to do in some steps only. Shapes: B rows in this replica's batch, S = 2 numbers of a state, A = 3
// actions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe.h"

struct ActorCriticOptions {
  std::string csv = "decisions.csv";
  std::int64_t actor_every = 3;
  double actor_learning_rate = 0.5;

  std::vector<troupe::Flag> flags() {
    return {
        troupe::flag("learning-rate"), troupe::flag("momentum"),
        troupe::flag("csv", &csv, "the table: warmth, noise, action and reward of each decision"),
        troupe::flag("actor-every", &actor_every, "steps from one of the actor's to the next",
                     {1, 1'000'000}),
        troupe::flag("actor-learning-rate", &actor_learning_rate,
                     "of the actor; --learning-rate is the critic's")};
  }
};

/// S numbers to A.
struct Network final : torch::nn::Module {
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(2, 16));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(16, 3));
  torch::Tensor forward(const torch::Tensor& state) {
    return output(torch::tanh(hidden(state)));  // [B, A]
  }
};

class ActorCriticHooks final : public troupe::Hooks {
 public:
  ActorCriticHooks(const troupe::Options& options, const ActorCriticOptions& mine)
      : options_(options), mine_(mine) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& worth, const torch::Tensor& reward) {
               return (worth - reward).pow(2);  // [B]
             }}};
  }
  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("worth");  // of what the actor does, to the critic
  }

  troupe::Trainable create_model() const override {
    const auto critic = std::make_shared<Network>();
    const auto actor = std::make_shared<Network>();
    return troupe::Trainable()
        .add_model("critic", critic)
        .add_model("actor", actor)
        .add_optimizer("critic", std::make_shared<torch::optim::SGD>(
                                     critic->parameters(),
                                     torch::optim::SGDOptions(options_.train.learning_rate)
                                         .momentum(options_.train.momentum)))
        .add_optimizer("actor", std::make_shared<torch::optim::SGD>(actor->parameters(),
                                                                    mine_.actor_learning_rate))
        .add_buffer("actor_steps", torch::zeros({}, torch::kInt64));
  }

  /// The same table for all; the last tenth of its rows is for the test.
  troupe::Splits create_datasets() const override {
    using troupe::csv_real;
    const auto rows =
        troupe::load_csv(mine_.csv, {{csv_real("warmth"), csv_real("noise")},
                                     {troupe::csv_category("action", {"stay", "left", "right"})},
                                     {csv_real("reward")}});
    const std::int64_t training = rows->size() - rows->size() / 10;
    return {troupe::take(rows, 0, training), nullptr,
            troupe::take(rows, training, rows->size() - training)};
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto [critic, actor] = losses(replica, batch);
    replica.apply_gradients(critic, "critic");
    if (is_actors(replica)) replica.apply_gradients(actor, "actor");
    return {{"critic", critic}, {"actor", actor}};
  }
  void after_step(troupe::Replica& replica) const override {
    if (is_actors(replica)) replica.buffer("actor_steps").add_(1);
  }
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto [critic, actor] = losses(replica, batch);
    return {{"critic", critic}, {"actor", actor}};
  }
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    const auto& state = batch.fields[0];
    return {{"action", torch::softmax(replica.model<Network>("actor").forward(state), 1)},
            {"worth", replica.model<Network>("critic").forward(state)}};
  }

 private:
  [[nodiscard]] bool is_actors(const troupe::Replica& replica) const {
    return replica.progress().step % mine_.actor_every == 0;
  }

  struct Losses {
    torch::Tensor critic, actor;
  };
  static Losses losses(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [state, action, reward] = batch.unpack<3>();
    const auto worths = replica.model<Network>("critic").forward(state);  // [B, A]
    const auto worth = worths.gather(1, action.unsqueeze(1)).squeeze(1);  // [B]
    const auto logs = torch::log_softmax(replica.model<Network>("actor").forward(state), 1);
    const auto expected = (logs.exp() * worths.detach()).sum(1);
    const auto entropy = -(logs.exp() * logs).sum(1);
    replica.metric("worth").update(expected.detach());
    // The actor begins by trying everything, and tries less with each step that it has taken.
    const double curiosity = 0.2 / (1 + 0.05 * replica.buffer("actor_steps").item<double>());
    return {replica.global_mean(replica.loss("squared_error")(worth, reward)),
            replica.global_mean(-expected - curiosity * entropy)};
  }

  const troupe::Options options_;
  const ActorCriticOptions mine_;
};
