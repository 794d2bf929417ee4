// Whole trainings of small tasks on any strategy: replicas as threads, ranks as threads, over real
// loopback sockets; what they end with, compared; and the same, interrupted.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/free_port.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temp_dir.h"
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
  options.group.start_timeout = std::chrono::seconds(60);
  options.group.collective_timeout = std::chrono::seconds(60);
  return options;
}

/// What a worker does with its strategy.
using WorkerBody = std::function<void(int rank, Strategy& strategy)>;
using ChangeOptions = std::function<void(StrategyOptions& options)>;

/// A group of so many workers, and what each of them threw. `change`: of each one's options.
inline RankErrors try_workers(int size, const WorkerBody& body,
                              const ChangeOptions& change = nullptr) {
  const auto port = free_port();
  return try_ranks(size, [&](int rank) {
    StrategyOptions options = options_of(rank, size, port);
    if (change) change(options);
    body(rank, *make_multi_worker(options));
  });
}

inline void run_workers(int size, const WorkerBody& body, const ChangeOptions& change = nullptr) {
  throw_first(try_workers(size, body, change));
}

/// What `end_of` its strategy is on every worker.
template <class EndOf>
auto on_workers(int size, const EndOf& end_of, const ChangeOptions& change = nullptr) {
  std::vector<decltype(end_of(std::declval<Strategy&>()))> ends(static_cast<std::size_t>(size));
  run_workers(
      size,
      [&](int rank, Strategy& strategy) {
        ends[static_cast<std::size_t>(rank)] = end_of(strategy);
      },
      change);
  return ends;
}

/// A run that says nothing and, if it has a directory, saves at its start and its end.
inline TrainOptions quiet_options(std::int64_t max_steps, std::int64_t batch_size = 4,
                                  const std::filesystem::path& dir = {}) {
  TrainOptions options;
  options.model_dir = dir.string();
  if (!dir.empty()) options.save_checkpoints_steps = 100;
  options.max_steps = max_steps;
  options.batch_size = batch_size;
  options.progress = false;
  options.log_every = 0;
  return options;
}

/// What a process ends with; compared bit for bit.
struct TrainingEnd {
  std::string hash;  // of parameters and buffers
  std::int64_t step = 0;
  Report test;
  History history;

  bool operator==(const TrainingEnd& other) const {
    const auto numbers = [](const TrainingEnd& end) {
      std::vector<double> all;
      for (const Report& report : {end.history.train.value_or(Report()), end.test}) {
        for (const auto& [name, loss] : report.losses) all.push_back(loss);
        for (const MetricValue& metric : report.metrics) all.push_back(metric.value);
      }
      return all;
    };
    return hash == other.hash && step == other.step && numbers(*this) == numbers(other);
  }
};

/// A process's whole life: new models, new optimisers, train until the options end it.
inline TrainingEnd train_alone(Strategy& strategy, const Hooks& hooks,
                               const TrainOptions& options) {
  TrainingEnd end;
  auto state = strategy.create_state(hooks, options.seed);
  const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
  end.history = train(strategy, hooks, state, data, options);
  end.test = test(strategy, hooks, state, data).value();
  end.hash = common_parameter_hash(strategy, state);
  end.step = state.step;
  strategy.close();
  return end;
}

/// A training of so many steps that is interrupted after each of them must end as one that is not.
/// `life`: of a process, that trains up to a step in a directory; it is told which of both it is.
template <class Life>
void check_interruptions(std::int64_t steps, const Life& life) {
  const TempDir whole;
  const auto expected = life(whole.path(), steps, /*is_whole=*/true);
  for (std::int64_t stop = 1; stop < steps; ++stop) {
    CAPTURE(stop);
    const TempDir dir;
    (void)life(dir.path(), stop, false);
    CHECK((life(dir.path(), steps, false) == expected));  // glog cannot print a vector of them
  }
}

/// The losses of three epochs by the strategy's verbs alone.
inline std::vector<double> take_steps(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                      std::int64_t batch_size = 4) {
  std::vector<double> losses;
  const auto data = strategy.distribute(hooks.create_datasets(), {batch_size, 1});
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const auto& batch : data.train->epoch(epoch)) {
      const auto results = strategy.run(
          [&](auto& replica, const auto& own) { return hooks.train_step(replica, own); }, state,
          batch);
      losses.push_back(strategy.reduce(results)[0].second);
    }
  }
  return losses;
}

inline void check_near(const std::vector<double>& values, const std::vector<double>& expected,
                       double epsilon = 1e-6) {
  DOCTEST_REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    DOCTEST_CAPTURE(i);
    DOCTEST_CHECK(values[i] == doctest::Approx(expected[i]).epsilon(epsilon));
  }
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
  return on_workers(
      size, [&](Strategy& strategy) { return train_with(strategy, hooks, epochs); },
      [&](StrategyOptions& options) { options.replicas = replicas; });
}

/// Options of a worker alone with so many replicas on the CPU.
inline StrategyOptions mirrored_options(int replicas) {
  StrategyOptions options;
  options.replicas = replicas;
  options.group.collective_timeout = std::chrono::seconds(60);
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

/// A task in which only the replica with index 1 uses the side layer.
class SideOfOne final : public SideLayer {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    auto loss = forward(replica, batch);
    if (replica.place().index == 1) {
      auto& side = replica.model<torch::nn::LinearImpl>("side");
      loss = loss + replica.global_mean(side.forward(batch.fields[0]).squeeze(1));
    }
    replica.apply_gradients(loss);
    return loss;
  }
};

/// A parameter that nobody uses keeps no gradient: weight decay would change it if it had one.
class CheckSide final : public SideLayer {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    auto result = SideLayer::train_step(replica, batch);
    const auto& side = replica.model<torch::nn::LinearImpl>("side");
    if (side.weight.grad().defined()) throw std::runtime_error("side has a gradient");
    if (side.weight.item<float>() != 0.25F) throw std::runtime_error("side has changed");
    return result;
  }
};

}  // namespace troupe::testing
