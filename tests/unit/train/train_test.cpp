#include <nlohmann/json.hpp>

#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/loop.h"

namespace train_test {

using troupe::testing::TinyHooks;

namespace {

/// Everything that a run of training needs, for a task of `examples` examples.
struct Run {
  TinyHooks hooks;
  std::unique_ptr<troupe::Strategy> strategy = troupe::make_one_device({});
  troupe::TrainState state;
  troupe::DistributedSplits data;

  explicit Run(std::int64_t examples, std::int64_t batch)
      : hooks(examples),
        state(strategy->create_state(hooks, 1)),
        data(strategy->distribute(hooks.create_datasets(), {batch, 1})) {}

  troupe::History train(const troupe::TrainOptions& options, troupe::Actions actions = {}) {
    return troupe::train(*strategy, hooks, state, data, options, {std::move(actions), {}});
  }
};

/// Remembers what it is told.
class Recorder final : public troupe::PeriodicAction {
 public:
  explicit Recorder(std::vector<troupe::StepReport>& steps) : steps_(steps) {}
  void after_step(const troupe::StepReport& report, troupe::RunControl&) override {
    steps_.push_back(report);
  }
  void after_epoch(std::int64_t, const troupe::Report&, const troupe::Report*) override {}

 private:
  std::vector<troupe::StepReport>& steps_;
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("train: epochs and max_steps, whichever is first, and max_steps alone spans epochs") {
    troupe::TrainOptions options;
    options.epochs = 2;
    Run two_epochs(10, 4);
    CHECK(two_epochs.train(options).steps == 6);
    CHECK(two_epochs.state.position.epoch == 2);

    options.max_steps = 4;
    Run stopped(10, 4);
    const auto history = stopped.train(options);
    CHECK(history.steps == 4);
    CHECK(history.epochs == 1);
    CHECK(stopped.state.position.epoch == 1);
    CHECK(stopped.state.position.step == 1);

    options.epochs.reset();
    options.max_steps = 7;
    Run long_run(10, 4);
    CHECK(long_run.train(options).steps == 7);
  }

  TEST_CASE("train: stopped and continued equals uninterrupted, bit for bit") {
    troupe::TrainOptions options;
    options.max_steps = 9;
    Run whole(10, 4);
    (void)whole.train(options);
    Run parts(10, 4);
    for (const std::int64_t stop : {1, 2, 5, 6, 9}) {
      options.max_steps = stop;
      (void)parts.train(options);
    }
    CHECK(troupe::parameter_hash(*parts.state.replicas[0]) ==
          troupe::parameter_hash(*whole.state.replicas[0]));
  }

  TEST_CASE("train: the epoch's loss is the mean over examples, a short last batch included") {
    troupe::TrainOptions options;
    options.log_every = 1;
    std::vector<troupe::StepReport> steps;
    troupe::Actions actions;
    actions.push_back(std::make_unique<Recorder>(steps));
    Run run(10, 4);
    const auto history = run.train(options, std::move(actions));
    REQUIRE(steps.size() == 3);
    CHECK(steps[2].examples == 2);
    double total = 0;
    for (const auto& step : steps) {
      total += step.losses.front().second * static_cast<double>(step.examples);
    }
    CHECK(history.train->losses.front().second == doctest::Approx(total / 10));
    CHECK(history.train->examples == 10);
  }

  TEST_CASE("train: losses are reduced on logged steps only, the first one included") {
    troupe::TrainOptions options;
    options.max_steps = 7;
    options.log_every = 3;
    std::vector<troupe::StepReport> steps;
    troupe::Actions actions;
    actions.push_back(std::make_unique<Recorder>(steps));
    Run run(10, 4);
    (void)run.train(options, std::move(actions));
    std::vector<std::int64_t> logged;
    for (const auto& step : steps) {
      if (!step.losses.empty()) logged.push_back(step.step);
    }
    CHECK(logged == std::vector<std::int64_t>{1, 3, 6});
  }

  TEST_CASE("train: without training examples there is a clear error") {
    Run run(10, 4);
    run.data.train.reset();
    CHECK_THROWS_WITH_AS((void)run.train({}), doctest::Contains("no training data"),
                         troupe::ConfigError);
  }

  TEST_CASE("evaluate: does not learn, counts every example once, leaves training metrics alone") {
    Run run(10, 4);
    const auto before = troupe::parameter_hash(*run.state.replicas[0]);
    const auto report = troupe::test(*run.strategy, run.hooks, run.state, run.data).value();
    CHECK(report.examples == 10);
    // w = 0.5, b = -0.25 on y = 2 x + 1: the error is 1.5 x + 1.25, x = 0 .. 0.9.
    CHECK(report.metrics.front().value == doctest::Approx(1.5 * 0.45 + 1.25));
    CHECK(troupe::parameter_hash(*run.state.replicas[0]) == before);
    const auto again = troupe::test(*run.strategy, run.hooks, run.state, run.data).value();
    CHECK(again.losses == report.losses);
  }

  TEST_CASE("predict: one output per example, in order") {
    Run run(10, 4);
    const auto all = troupe::predict(run.hooks, run.state, run.hooks.create_datasets().test, 4);
    REQUIRE(all.size() == 3);
    CHECK(all[2].front().first == "y");
    CHECK(all[2].front().second.size(0) == 2);
    CHECK(all[0].front().second[1][0].item<float>() == doctest::Approx(0.5 * 0.1 - 0.25));
  }

  TEST_CASE("report_json: sums beside values, and no JSON for what is not a number") {
    troupe::Report report;
    report.examples = 4;
    report.losses = {{"loss", std::numeric_limits<double>::quiet_NaN()}};
    report.metrics = {{"accuracy", 0.75, {{"correct", 3}, {"examples", 4}}},
                      {"top5", 1.0, {{"correct", 4}, {"examples", 4}}}};
    CHECK(troupe::to_json(report).dump() ==
          R"({"loss":null,"accuracy":0.75,"top5":1.0,"correct":3,"top5/correct":4,"examples":4})");
  }

  TEST_CASE("one_device: a loss that is not finite stops before the optimiser") {
    class Exploding final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = forward(replica, batch) / 0.0;
        replica.apply_gradients(loss);
        return loss;
      }
    };
    const Exploding hooks;
    const auto strategy = troupe::make_one_device({});
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
    CHECK_THROWS_WITH_AS((void)troupe::train(*strategy, hooks, state, data, {}),
                         doctest::Contains("parameter \"weight\" is not finite"),
                         troupe::NonFiniteError);
    CHECK(state.replicas[0]->parameters()[0].second.item<float>() == 0.5F);
  }
}

}  // namespace train_test
