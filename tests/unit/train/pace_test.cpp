// A pace that is neither lockstep nor the parameter servers': what a loop does at it follows from
// the answers of Pace alone.
#include "troupe/strategies/pace.h"

#include <algorithm>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/error.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/loop.h"

using Steps = std::vector<std::int64_t>;

namespace {

/// Numbers go up by 3; of each second batch there is nothing here; after `tide` steps it is over.
class TidalPace final : public troupe::Pace {
 public:
  bool coordinates_ = true;
  int tide = 1000;
  std::vector<std::string> calls;  // all but the steps
  std::int64_t last_step = 0;

  [[nodiscard]] bool coordinates() const override { return coordinates_; }
  [[nodiscard]] int voices() const override { return 1; }
  [[nodiscard]] Counts counts(const troupe::DistributedDataset& train) const override {
    return {6, 3 * ((*train.steps_per_epoch() + 1) / 2), false};
  }
  void require(Need need, const std::string& what) const override {
    if (need == Need::every_update) throw troupe::ConfigError(what + " in the tide.", "wait.");
  }
  void start(troupe::TrainState&, const troupe::DistributedDataset&, std::int64_t last) override {
    calls.emplace_back("start");
    last_step = last;
  }
  [[nodiscard]] std::optional<std::int64_t> next_step(troupe::TrainState& state) override {
    if (tide-- > 0) return state.step + 3;
    state.ended = "the tide is in";
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> examples_of(
      const troupe::DistributedBatch& batch) const override {
    if (batch.step % 2 == 1) return std::nullopt;
    return batch.global_examples;
  }
  void collect(troupe::TrainState&) override { calls.emplace_back("collect"); }
  void end(troupe::TrainState&, const std::string& reason) override { calls.push_back(reason); }
  [[nodiscard]] std::string facts() const override { return ""; }
};

/// One device at that pace.
class TidalStrategy final : public troupe::Strategy {
 public:
  TidalStrategy() : Strategy("tidal", {}) {}

  [[nodiscard]] troupe::Pace& pace() override { return tidal; }
  [[nodiscard]] troupe::TrainState create_state(const troupe::Hooks& hooks,
                                                std::uint64_t seed) override {
    return device_->create_state(hooks, seed);
  }
  [[nodiscard]] std::vector<troupe::StepResult> run(const troupe::Step& step,
                                                    troupe::TrainState& state,
                                                    const troupe::DistributedBatch& batch,
                                                    troupe::Phase phase) override {
    return device_->run(step, state, batch, phase);
  }

  TidalPace tidal;

 private:
  std::unique_ptr<troupe::Strategy> device_ = troupe::make_one_device({});
};

/// The numbers of the steps, and those whose losses were known.
class TidalRecorder final : public troupe::PeriodicAction {
 public:
  void after_step(const troupe::StepReport& report, troupe::RunControl&) override {
    taken.push_back(report.step);
    if (!report.losses.empty()) logged.push_back(report.step);
  }
  Steps taken, logged;
};

/// 10 examples in batches of 2: batches 0, 2 and 4 of each epoch are steps here.
struct TidalRun {
  troupe::testing::TinyHooks hooks;
  TidalStrategy strategy;
  troupe::TrainState state = strategy.create_state(hooks, 1);
  troupe::DistributedSplits data = strategy.distribute(hooks.create_datasets(), {2, 1});
  std::shared_ptr<TidalRecorder> recorder = std::make_shared<TidalRecorder>();
  troupe::TrainOptions options;

  TidalRun() {
    options.batch_size = 2;
    options.epochs = 100;
    options.log_every = 5;
    options.progress = false;
    options.save_summary_steps = 0;
  }
  troupe::History train() {
    return troupe::train(strategy, hooks, state, data, options, {{recorder}, {}});
  }
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("pace: numbers may skip, batches may be others', and the end may come from elsewhere") {
    TidalRun run;
    run.strategy.tidal.tide = 5;
    const auto history = run.train();
    CHECK(run.recorder->taken == Steps{3, 6, 9, 12, 15});
    // The first step, and the first at or after each multiple of 5.
    CHECK(run.recorder->logged == Steps{3, 6, 12, 15});
    CHECK(history.steps == 5);
    CHECK(history.examples == 10);
    CHECK(history.reason == "the tide is in");
    CHECK(run.strategy.tidal.last_step == 900);
    const auto& calls = run.strategy.tidal.calls;
    CHECK(calls.front() == "start");
    CHECK(calls.back() == "the tide is in");
    CHECK(std::count(calls.begin(), calls.end(), "start") == 1);
    CHECK(std::count(calls.begin(), calls.end(), "the tide is in") == 1);
  }

  TEST_CASE(
      "pace: where the place in the data says nothing, the number of the step ends training") {
    TidalRun run;
    run.options.max_steps = 10;
    const auto history = run.train();
    CHECK(run.recorder->taken == Steps{3, 6, 9, 12});
    CHECK(history.reason == "max_steps 10 is reached");
    CHECK(run.strategy.tidal.last_step == 10);
  }

  TEST_CASE("pace: only a worker that coordinates collects, validates and saves") {
    for (const bool coordinates : {true, false}) {
      CAPTURE(coordinates);
      const troupe::testing::TempDir dir;
      TidalRun run;
      run.strategy.tidal.coordinates_ = coordinates;
      run.strategy.tidal.tide = 4;
      run.options.model_dir = dir.path().string();
      run.options.save_checkpoints_steps = 6;
      const auto history = run.train();
      const auto& calls = run.strategy.tidal.calls;
      CHECK((std::count(calls.begin(), calls.end(), "collect") > 0) == coordinates);
      CHECK(history.validation.has_value() == coordinates);
      CHECK(std::filesystem::is_empty(dir.path()) != coordinates);
    }
  }

  TEST_CASE("pace: what an option needs is asked of it before anything is begun") {
    TidalRun run;
    run.options.ema_decay = 0.9;
    CHECK_THROWS_WITH_AS((void)run.train(), doctest::Contains("--ema-decay in the tide."),
                         troupe::ConfigError);
    CHECK(run.strategy.tidal.calls.empty());
    CHECK(run.recorder->taken.empty());
  }
}
