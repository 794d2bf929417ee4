// Whole trainings of small tasks on any strategy: replicas as threads, ranks as threads, over real
// loopback sockets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_secret.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/strategies/kinds/multi_worker.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/loop.h"

namespace troupe::testing {

/// Options of `rank` in a group of `size` threads whose chief listens on `port`.
inline StrategyOptions options_of(int rank, int size, std::uint16_t port) {
  StrategyOptions options;
  options.cluster.rank = rank;
  options.cluster.members.clear();
  for (int i = 0; i < size; ++i) {
    options.cluster.members.push_back({text("worker/", i), std::nullopt});
  }
  options.cluster.members[0].address = Endpoint{"127.0.0.1", port};
  options.group.secret = test_secret();
  options.group.start_timeout = std::chrono::seconds(20);
  options.group.collective_timeout = std::chrono::seconds(20);
  return options;
}

/// What one rank ends with.
struct Outcome {
  std::vector<double> losses;
  Report test;
  std::string hash;
};

class Losses final : public PeriodicAction {
 public:
  explicit Losses(std::vector<double>& losses) : losses_(losses) {}
  void after_step(const StepReport& report, RunControl&) override {
    losses_.push_back(report.losses.front().second);
  }
  void after_epoch(std::int64_t, const Report&, const Report*) override {}

 private:
  std::vector<double>& losses_;
};

inline Outcome train_with(Strategy& strategy, const Hooks& hooks, std::int64_t epochs = 3) {
  Outcome outcome;
  auto state = strategy.create_state(hooks, 1);
  const auto data = strategy.distribute(hooks.create_datasets(), {4, 1});
  TrainOptions options;
  options.epochs = epochs;
  options.log_every = 1;
  options.progress = false;
  Actions actions;
  actions.push_back(std::make_unique<Losses>(outcome.losses));
  (void)train(strategy, hooks, state, data, options, {std::move(actions), {}});
  outcome.test = test(strategy, hooks, state, data).value();
  outcome.hash = common_parameter_hash(strategy, state);
  strategy.close();
  return outcome;
}

/// What every rank ends with, each with so many replicas.
inline std::vector<Outcome> train_on(int size, const Hooks& hooks, int replicas = 1,
                                     std::int64_t epochs = 3) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  const auto port = free_port();
  run_ranks(size, [&](int rank) {
    StrategyOptions options = options_of(rank, size, port);
    options.replicas = replicas;
    const auto strategy = make_multi_worker(options);
    outcomes[static_cast<std::size_t>(rank)] = train_with(*strategy, hooks, epochs);
  });
  return outcomes;
}

/// Options of a worker alone with so many replicas on the CPU.
inline StrategyOptions mirrored_options(int replicas) {
  StrategyOptions options;
  options.replicas = replicas;
  options.group.collective_timeout = std::chrono::seconds(20);
  return options;
}

/// One linear layer that the loss uses only on the replicas that `used` says, beside the task's
/// own.
class SideLayer : public TinyHooks {
 public:
  using TinyHooks::TinyHooks;
  [[nodiscard]] Trainable create_model() const override {
    torch::nn::Linear line(1, 1);
    torch::nn::Linear side(1, 1);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : line->parameters()) parameter.fill_(0.5);
    for (auto& parameter : side->parameters()) parameter.fill_(0.25);
    std::vector<at::Tensor> all = line->parameters();
    for (const auto& parameter : side->parameters()) all.push_back(parameter);
    return Trainable()
        .add_model("model", line.ptr())
        .add_model("side", side.ptr())
        .add_optimizer("optimizer", std::make_shared<torch::optim::SGD>(
                                        all, torch::optim::SGDOptions(0.01).weight_decay(0.1)));
  }
};

}  // namespace troupe::testing
