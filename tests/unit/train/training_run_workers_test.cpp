// Loops of one's own on two workers, losses that replicas return in another order, and streams that
// do not end at the same step.
#include <algorithm>
#include <functional>
#include <mutex>

#include "tests/support/caught.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "tests/unit/train/loop_runs.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/data/stream.h"

namespace training_run_workers_test {

using namespace troupe::testing;  // NOLINT
using troupe::TrainingRun;

namespace {

/// A worker's part of a program: its loop, up to and with finish(), or not.
using Body = std::function<void(int rank, TrainingRun& run, troupe::TrainState& state)>;

struct Ends {
  RankErrors errors;
  std::vector<std::string> hashes;
  std::vector<std::int64_t> steps;
};

/// With hooks for each worker.
Ends run_workers(const Body& body, const troupe::TrainOptions& options,
                 const std::vector<const troupe::Hooks*>& hooks_of) {
  const int workers = static_cast<int>(hooks_of.size());
  Ends ends{
      {}, std::vector<std::string>(hooks_of.size()), std::vector<std::int64_t>(hooks_of.size())};
  ends.errors = try_workers(workers, [&](int rank, troupe::Strategy& strategy) {
    const troupe::Hooks& hooks = *hooks_of[static_cast<std::size_t>(rank)];
    auto state = strategy.create_state(hooks, options.seed);
    const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
    TrainingRun run(strategy, hooks, state, data, options);
    body(rank, run, state);
    if (!run.is_over()) return;  // it has left without finish()
    ends.steps[static_cast<std::size_t>(rank)] = state.step;
    ends.hashes[static_cast<std::size_t>(rank)] = troupe::parameter_hash(*state.replicas[0]);
    strategy.close();
  });
  return ends;
}

Ends run_two(const Body& body, const troupe::TrainOptions& options,
             const troupe::Hooks& hooks = TinyHooks(24)) {
  return run_workers(body, options, {&hooks, &hooks});
}

/// Six steps an epoch.
void train(
    TrainingRun& run, const std::function<void()>& after_step = [] {}) {
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) {
      run.train_step(batch);
      after_step();
    }
    (void)run.validate();
  }
  (void)run.finish();
}

/// Two losses, in an order of the worker's own, or another one on one worker.
class TwoLosses final : public TinyHooks {
 public:
  enum class What { order, names };
  explicit TwoLosses(What what) : TinyHooks(24), what_(what) {}
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    const auto one = replica.global_mean(torch::ones({batch.examples()}));
    const bool first = replica.place().index == 0;
    if (what_ == What::names) return {{"loss", loss}, {first ? "one" : "eins", one}};
    if (first) return {{"loss", loss}, {"one", one}};
    return {{"one", one}, {"loss", loss}};
  }

 private:
  What what_;
};

/// Trains on a stream of so many examples, in blocks of five.
class StreamedHooks final : public TinyHooks {
 public:
  explicit StreamedHooks(std::int64_t examples) : examples_(examples) {}
  [[nodiscard]] troupe::Splits create_datasets() const override {
    const auto read = [this](std::int64_t number) -> std::optional<std::vector<troupe::Example>> {
      if (number * 5 >= examples_) return std::nullopt;
      std::vector<troupe::Example> block;
      for (std::int64_t i = number * 5; i < std::min(number * 5 + 5, examples_); ++i) {
        const auto x = torch::full({1}, 0.1 * static_cast<double>(i));
        block.push_back({x, 2.0 * x + 1.0});
      }
      return block;
    };
    return {std::make_shared<troupe::StreamDataset>(read), nullptr, nullptr};
  }

 private:
  std::int64_t examples_;
};

void check_ones(TrainingRun& run) {
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) {
      run.train_step(batch);
      for (const auto& [name, value] : run.losses()) {
        if (name == "one") CHECK(value == doctest::Approx(1));
      }
    }
  }
  const auto history = run.finish();
  for (const auto& [name, value] : history.train->losses) {
    if (name == "one") CHECK(value == doctest::Approx(1));
  }
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("run: two workers have equal weights after a loop that clips them") {
    const Ends ends = run_two(
        [](int, TrainingRun& run, troupe::TrainState& state) {
          train(run, [&] {
            const torch::NoGradGuard no_grad;
            for (auto& [name, weight] : state.replicas[0]->parameters()) weight.clamp_(-0.6, 0.6);
          });
        },
        loop_options());
    CHECK(message_of(ends.errors[0]) == "");
    CHECK(message_of(ends.errors[1]) == "");
    CHECK(ends.hashes[0] == ends.hashes[1]);
    CHECK(ends.steps[0] == 18);
  }

  TEST_CASE("run: what one worker wishes, all do at the same step") {
    const TempDir dir;
    auto options = loop_options(dir.path());
    options.save_checkpoints_steps = 100;
    const Ends ends = run_two(
        [](int rank, TrainingRun& run, troupe::TrainState&) {
          train(run, [&] {
            if (rank == 1 && run.step_number() == 4) run.save();
            if (rank == 1 && run.step_number() == 8) run.stop("rank 1 has seen enough");
          });
        },
        options);
    CHECK(message_of(ends.errors[0]) == "");
    CHECK(message_of(ends.errors[1]) == "");
    CHECK(ends.steps == std::vector<std::int64_t>{8, 8});
    for (const int step : {0, 4, 8}) {
      CHECK(std::filesystem::exists(dir / troupe::text("model.ckpt-", step)));
    }
  }

  TEST_CASE("run: a break on all workers alike ends it, with the save") {
    const TempDir dir;
    auto options = loop_options(dir.path());
    options.save_checkpoints_steps = 100;
    const Ends ends = run_two(
        [](int, TrainingRun& run, troupe::TrainState&) {
          for (const auto& batch : *run.epochs().next()) {
            run.train_step(batch);
            if (batch.step == 2) break;
          }
          CHECK(run.finish().reason == "the loop has ended it");
        },
        options);
    CHECK(message_of(ends.errors[0]) == "");
    CHECK(message_of(ends.errors[1]) == "");
    CHECK(std::filesystem::exists(dir / "model.ckpt-3"));
  }

  TEST_CASE("run: a break on one worker only is named on both") {
    const Ends ends = run_two(
        [](int rank, TrainingRun& run, troupe::TrainState&) {
          for (auto& epoch : run.epochs()) {
            bool left = false;
            for (const auto& batch : epoch) {
              run.train_step(batch);
              left = rank == 1 && batch.step == 2;
              if (left) break;
            }
            if (left) break;
          }
          (void)run.finish();
        },
        loop_options());
    for (const auto& error : ends.errors) {
      INFO(message_of(error));
      CHECK(has(message_of(error), "1 of 2 workers left the training loop"));
    }
  }

  TEST_CASE("run: a body that throws on one worker is named on the other") {
    const Ends ends = run_two(
        [](int rank, TrainingRun& run, troupe::TrainState&) {
          train(run, [&] {
            if (rank == 1 && run.step_number() == 3) throw Crash();
          });
        },
        loop_options());
    CHECK(message_of(ends.errors[1]) == Crash().what());
    CHECK(is<troupe::PeerFailed>(ends.errors[0]));
    INFO(message_of(ends.errors[0]));
    CHECK(has(message_of(ends.errors[0]), "rank 1 left its training loop by an exception"));
  }

  TEST_CASE("run: a worker that returns without finish() is named on the other") {
    const Ends ends = run_two(
        [](int rank, TrainingRun& run, troupe::TrainState&) {
          if (rank == 1) return;
          train(run);
        },
        loop_options());
    (void)troupe::detail::take_left_undone();
    INFO(message_of(ends.errors[0]));
    CHECK(has(message_of(ends.errors[0]), "rank 1 left its training loop without finish()"));
  }

  // Two examples for each worker in a step; where one has read its last, others have a step more.
  TEST_CASE("run: streams that do not end at the same step end the run on all workers") {
    const std::vector<std::vector<std::int64_t>> differing = {
        {24, 24, 18}, {18, 24, 24}, {24, 14, 24}, {24, 13, 24}, {12, 24, 12}, {24, 24, 1}};
    for (const auto& examples : differing) {
      CAPTURE(examples.front());
      const std::vector<StreamedHooks> hooks(examples.begin(), examples.end());
      const TempDir dir;
      auto options = loop_options(dir.path());
      options.batch_size = 6;
      options.save_checkpoints_steps = 1;
      const Ends ends = run_workers([](int, TrainingRun& run, troupe::TrainState&) { train(run); },
                                    options, {&hooks[0], &hooks[1], &hooks[2]});
      const std::int64_t shortest = *std::min_element(examples.begin(), examples.end());
      const auto end = (shortest + 5) / 6;
      const auto ended = std::count_if(examples.begin(), examples.end(),
                                       [&](std::int64_t own) { return (own + 5) / 6 == end; });
      for (const auto& error : ends.errors) {
        CHECK(is<troupe::DesyncError>(error));
        INFO(message_of(error));
        CHECK(has(message_of(error), troupe::text("the epoch ends here on ", ended,
                                                  " of 3 workers, "
                                                  "and the others continue")));
      }
      // The step was divided by other numbers of examples: it is not saved.
      CHECK(std::filesystem::exists(dir / troupe::text("model.ckpt-", end - 1)));
      CHECK_FALSE(std::filesystem::exists(dir / troupe::text("model.ckpt-", end)));
    }
    const std::vector<StreamedHooks> alike(3, StreamedHooks(23));
    const Ends ends = run_workers([](int, TrainingRun& run, troupe::TrainState&) { train(run); },
                                  loop_options(), {&alike[0], &alike[1], &alike[2]});
    for (const auto& error : ends.errors) CHECK(message_of(error) == "");
    CHECK(ends.steps == std::vector<std::int64_t>(3, 18));
  }

  TEST_CASE("run: losses that workers return in another order are added by name") {
    const Ends ends = run_two([](int, TrainingRun& run, troupe::TrainState&) { check_ones(run); },
                              loop_options(), TwoLosses(TwoLosses::What::order));
    CHECK(message_of(ends.errors[0]) == "");
    CHECK(message_of(ends.errors[1]) == "");
  }

  TEST_CASE("run: losses that replicas return in another order are added by name") {
    const TwoLosses hooks(TwoLosses::What::order);
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), loop_options().batches());
    TrainingRun run(*strategy, hooks, state, data, loop_options());
    check_ones(run);
  }

  TEST_CASE("run: other losses on another worker or replica are an error that names them") {
    const TwoLosses hooks(TwoLosses::What::names);
    const auto one_step = [](int, TrainingRun& run, troupe::TrainState&) {
      run.train_step(*run.epochs().next()->next());
      (void)run.losses();
    };
    const Ends ends = run_two(one_step, loop_options(), hooks);
    CHECK(has(message_of(ends.errors[0]), "returned other losses than \"loss, "));
    CHECK(message_of(ends.errors[1]) != "");
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), loop_options().batches());
    TrainingRun run(*strategy, hooks, state, data, loop_options());
    CHECK_THROWS_WITH_AS(one_step(0, run, state), doctest::Contains("a step of replica 1"),
                         troupe::ConfigError);
  }
}

}  // namespace training_run_workers_test
