// examples/cart_pole/play.h -- a policy, and what happens to a replica that plays by it in the
// environments that are its own.
//
// Shapes: B environments of this replica, T steps played, S = 4 numbers of a state, A = 2 actions.
#pragma once

#include <memory>
#include <vector>

#include "examples/cart_pole/cart_pole.h"
#include "troupe.h"

/// What to do in a state, and what that is worth.
struct Policy final : torch::nn::Module {
  static torch::nn::Sequential network(std::int64_t outputs) {
    return torch::nn::Sequential(torch::nn::Linear(CartPole::kNumbers, 64), torch::nn::Tanh(),
                                 torch::nn::Linear(64, 64), torch::nn::Tanh(),
                                 torch::nn::Linear(64, outputs));
  }
  torch::nn::Sequential actor = register_module("actor", network(2));
  torch::nn::Sequential critic = register_module("critic", network(1));

  /// Logarithms of the actions' probabilities [..., A].
  torch::Tensor choices(const torch::Tensor& states) {
    return torch::log_softmax(actor->forward(states), -1);
  }
  torch::Tensor worth(const torch::Tensor& states) { return critic->forward(states).squeeze(-1); }
};

/// What happened to a replica, B x T.
struct Played {
  torch::Tensor states;      // [B, T, S]
  torch::Tensor actions;     // [B, T, 1]
  torch::Tensor chosen;      // the logarithm of the action's probability
  torch::Tensor advantages;  // by how much it went better than expected
  torch::Tensor returns;
};

struct PlayOptions {
  std::uint64_t seed;
  std::int64_t steps;
  double discount;
  double trace;
};

inline CartPole environment(torch::Tensor& rows, std::int64_t i) {
  return {rows[i].data_ptr<double>()};
}
/// As the policy sees them.
inline torch::Tensor states(const troupe::Replica& replica, const torch::Tensor& rows) {
  return rows.slice(1, 0, CartPole::kNumbers)
      .to(replica.place().device, torch::typeMetaToScalarType(torch::get_default_dtype()));
}

/// Goes on where the step before has stopped. What an environment draws depends on its number and
/// the step alone, so it is the same on any number of replicas, and in a run that resumes.
inline Played play(troupe::Replica& replica, const torch::Tensor& numbers,
                   const PlayOptions& options) {
  const torch::NoGradGuard no_gradients;
  auto& policy = replica.model<Policy>();
  auto environments = replica.buffer("environments");
  auto rows = environments.index_select(0, numbers.cpu());  // [B, S + 1]
  const std::int64_t count = rows.size(0);
  std::vector<troupe::ExampleRandom> random;
  for (std::int64_t i = 0; i < count; ++i) {
    random.push_back(
        troupe::DrawPlace{options.seed, replica.progress().step, numbers[i].item<std::int64_t>()}
            .random(0));
  }
  std::vector<double> lasted;  // of the episodes that have ended
  std::vector<torch::Tensor> seen, done, chosen, worth, rewards, going;
  for (std::int64_t step = 0; step < options.steps; ++step) {
    for (std::int64_t i = 0; i < count; ++i) {
      const CartPole each = environment(rows, i);
      if (!each.has_begun() || each.is_over()) each.reset(random[static_cast<std::size_t>(i)]);
    }
    seen.push_back(states(replica, rows));
    worth.push_back(policy.worth(seen.back()));
    const auto choices = policy.choices(seen.back());
    const auto right = choices.select(1, 1).exp().to(torch::kCPU, torch::kFloat64);
    auto action = torch::empty({count, 1}, torch::kInt64);
    auto on = torch::empty({count}, choices.options().device(torch::kCPU));
    auto reward = torch::ones_like(on);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool is_right = random[static_cast<std::size_t>(i)].uniform() < right[i].item<double>();
      const CartPole each = environment(rows, i);
      each.push(is_right);
      action[i][0] = is_right ? 1 : 0;
      on[i] = each.is_over() ? 0 : 1;
      if (each.is_over()) lasted.push_back(each.row[CartPole::kNumbers]);
    }
    done.push_back(action.to(choices.device()));
    chosen.push_back(choices.gather(1, done.back()).squeeze(1));
    rewards.push_back(reward.to(choices.device()));
    going.push_back(on.to(choices.device()));
  }
  environments.index_copy_(0, numbers.cpu(), rows);
  if (!lasted.empty()) replica.metric("return").update(torch::tensor(lasted));

  Played played{torch::stack(seen, 1), torch::stack(done, 1), torch::stack(chosen, 1), {}, {}};
  std::vector<torch::Tensor> advantages(seen.size());
  auto next_worth = policy.worth(states(replica, rows));
  auto carried = torch::zeros_like(next_worth);
  for (std::size_t t = seen.size(); t-- > 0;) {
    const auto surprise = rewards[t] + options.discount * going[t] * next_worth - worth[t];
    carried = surprise + options.discount * options.trace * going[t] * carried;
    advantages[t] = carried;
    next_worth = worth[t];
  }
  played.advantages = torch::stack(advantages, 1);
  played.returns = played.advantages + torch::stack(worth, 1);
  return played;
}
