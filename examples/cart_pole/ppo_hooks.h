// examples/cart_pole/ppo_hooks.h -- template/my_hooks.h, filled in for a program that makes its own
// examples: a policy learns from what happened to it in environments of its own, by proximal policy
// optimisation (J. Schulman et al., "Proximal Policy Optimization Algorithms", arXiv:1707.06347).
// A step of training plays for a while in all environments, and then makes several updates from it.
// --batch-size is the number of environments over all replicas.
//
// Shapes: B environments of this replica, N of all, T steps played.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "examples/cart_pole/play.h"
#include "troupe.h"

struct PpoOptions {
  std::int64_t played = 32;
  std::int64_t updates = 20;
  double clip = 0.2;
  double discount = 0.98;
  double trace = 0.8;
  double most_change = 0.02;
  std::int64_t tested = 20;

  std::vector<troupe::Flag> flags() {
    return {
        troupe::flag("learning-rate"),
        troupe::flag("played", &played, "steps in each environment between updates", {1, 100'000}),
        troupe::flag("updates", &updates, "of the policy, from what was played", {1, 1000}),
        troupe::flag("most-change", &most_change,
                     "ends the updates of a step early: nats by which the policy may change"),
        troupe::flag("tested", &tested, "episodes of a validation", {1, 100'000})};
  }
};

class PpoHooks final : public troupe::Hooks {
 public:
  PpoHooks(const troupe::Options& options, const PpoOptions& mine)
      : options_(options), mine_(mine) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& worth, const torch::Tensor& wanted) {
               return (worth - wanted).pow(2).mean(1);  // [B, T] to [B]
             }}};
  }
  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Mean>("return");
  }

  /// Every replica has room for all environments, and plays in those that are its own.
  troupe::Trainable create_model() const override {
    const auto policy = std::make_shared<Policy>();
    return troupe::Trainable(policy, std::make_shared<torch::optim::Adam>(
                                         policy->parameters(), options_.train.learning_rate))
        .add_own("environments", torch::full({options_.train.batch_size, CartPole::kNumbers + 1},
                                             -1.0, torch::kFloat64));
  }

  troupe::Splits create_datasets() const override {
    constexpr std::int64_t kStepsOfRound = 10;
    troupe::Splits splits;
    splits.train = troupe::own_steps(options_.train.batch_size, kStepsOfRound);
    splits.validation = troupe::own_steps(mine_.tested, 1);
    splits.sampler = troupe::sequential();
    splits.unit = "round";
    return splits;
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    auto& policy = replica.model<Policy>();
    const Played played = play(replica, batch.fields[0],
                               {options_.train.seed, mine_.played, mine_.discount, mine_.trace});
    // Over all environments of all replicas, as if one replica had played in all of them.
    const auto all = replica.all_gather(played.advantages).rows;  // [N, T]
    const auto advantages = (played.advantages - all.mean()) / (all.std() + 1e-8);

    troupe::StepResult result;
    for (std::int64_t update = 0; update < mine_.updates; ++update) {
      const auto chosen = policy.choices(played.states).gather(2, played.actions).squeeze(2);
      const auto ratio = (chosen - played.chosen).exp();  // [B, T]
      if (update > 0) {  // every replica sees the same mean, so all of them stop, or none
        const auto change = (ratio.detach() - 1 - (chosen - played.chosen).detach()).mean(1);
        if (replica.all_gather(change).rows.mean().item<double>() > mine_.most_change) break;
      }
      const auto kept = torch::clamp(ratio, 1 - mine_.clip, 1 + mine_.clip);
      const auto actor =
          replica.global_mean(-torch::min(ratio * advantages, kept * advantages).mean(1));
      const auto critic = replica.global_mean(
          replica.loss("squared_error")(policy.worth(played.states), played.returns));
      replica.apply_gradients(actor + 0.5 * critic);
      result = {{"actor", actor.detach()}, {"critic", critic.detach()}};
    }
    return result;
  }

  /// An episode for each example, in which the policy does what it holds for best.
  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto numbers = batch.fields[0];
    const std::int64_t count = numbers.size(0);
    auto rows = torch::empty({count, CartPole::kNumbers + 1}, torch::kFloat64);
    for (std::int64_t i = 0; i < count; ++i) {
      auto random =
          troupe::DrawPlace{~options_.train.seed, 0, numbers[i].item<std::int64_t>()}.random(0);
      environment(rows, i).reset(random);
    }
    for (int step = 0; step < CartPole::kMostSteps; ++step) {
      const auto best = replica.model<Policy>().choices(states(replica, rows)).argmax(1).cpu();
      for (std::int64_t i = 0; i < count; ++i) {
        const CartPole each = environment(rows, i);
        if (!each.is_over()) each.push(best[i].item<std::int64_t>() == 1);
      }
    }
    const auto lasted = rows.select(1, CartPole::kNumbers).to(torch::kFloat).to(numbers.device());
    replica.metric("return").update(lasted);
    return {{"missed", replica.global_mean(CartPole::kMostSteps - lasted)}};
  }

 private:
  const troupe::Options options_;
  const PpoOptions mine_;
};
