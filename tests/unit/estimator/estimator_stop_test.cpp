// How Estimator::train ends other than by its limits: stop requests, values that are not finite, a
// disk that fails.
#include <fstream>
#include <functional>
#include <limits>

#include "tests/support/counter_hooks.h"
#include "tests/support/silence.h"
#include "tests/support/stop_at.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

/// TinyHooks whose loss is not a number at one step, so neither are its gradients.
class NanAt final : public TinyHooks {
 public:
  explicit NanAt(std::int64_t step) : step_(step) {}
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    auto loss = forward(replica, batch);
    if (++steps_ == step_) loss = loss * std::numeric_limits<double>::quiet_NaN();
    replica.apply_gradients(loss);
    return loss;
  }

 private:
  std::int64_t step_;
  mutable std::int64_t steps_ = 0;
};

/// A loss that is not a number and has no gradient, at every step.
class NanLoss final : public CounterHooks {
 public:
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch&) const override {
    return replica.local_loss(torch::full({}, std::numeric_limits<double>::quiet_NaN()));
  }
};

/// Runs a function after one step.
class AtStep final : public troupe::PeriodicAction {
 public:
  AtStep(std::int64_t step, std::function<void(troupe::RunControl&)> function)
      : step_(step), function_(std::move(function)) {}
  void after_step(const troupe::StepReport& report, troupe::RunControl& run) override {
    if (report.step == step_) function_(run);
  }

 private:
  std::int64_t step_;
  std::function<void(troupe::RunControl&)> function_;
};

bool all_finite(const troupe::Estimator& estimator) {
  for (const auto& name : estimator.variable_names()) {
    if (!torch::isfinite(estimator.variable_value(name)).all().item<bool>()) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("train: a listener that asks to stop at the third save ends training there") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 5));
    const auto stopping = std::make_shared<SaveRecorder>(3);
    const auto other = std::make_shared<SaveRecorder>();
    const auto steps = std::make_shared<StepRecorder>();
    auto call = for_steps(100);
    call.callbacks = {{steps}, {stopping, other}};
    const auto history = estimator.train(call);
    CHECK(history.steps == 10);
    CHECK(history.reason.find("listener") != std::string::npos);
    CHECK(steps->ended == 1);
    for (const auto& listener : {stopping, other}) {
      CHECK(listener->after == Steps{0, 5, 10});
      CHECK(listener->ends == Steps{10});
    }
  }

  TEST_CASE("train: a listener's stop at the first save and the last means nothing") {
    const CounterHooks hooks;
    const TempDir first;
    auto call = for_steps(7);
    call.callbacks.listeners = {std::make_shared<SaveRecorder>(1)};
    CHECK(troupe::Estimator(hooks, options_in(first.path(), 5)).train(call).steps == 7);
    const TempDir last;
    call.callbacks.listeners = {std::make_shared<SaveRecorder>(3)};
    const auto history = troupe::Estimator(hooks, options_in(last.path(), 5)).train(call);
    CHECK(history.steps == 7);
    CHECK(history.reason.find("listener") == std::string::npos);
  }

  TEST_CASE(
      "train: an action that finds its step reached when a run starts stops it before a step") {
    const Silence silence;
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    (void)estimator.train(for_steps(5));
    auto call = for_steps(100);
    call.callbacks.actions = {std::make_shared<troupe::testing::StopAt>(18)};
    CHECK(estimator.train(call).steps == 13);
    CHECK(latest_step(estimator) == 18);
    CHECK(estimator.train(call).steps == 0);
  }

  TEST_CASE("train: a stop that an action asks for is carried out after all actions of the step") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto later = std::make_shared<StepRecorder>();
    auto call = for_steps(100);
    call.callbacks.actions = {
        std::make_shared<AtStep>(4, [](troupe::RunControl& run) { run.request_stop("enough"); }),
        later};
    const auto history = estimator.train(call);
    CHECK(history.reason == "enough");
    CHECK(later->steps == Steps{1, 2, 3, 4});
    CHECK(later->ended == 1);
    CHECK(latest_step(estimator) == 4);
  }

  TEST_CASE("train: an exception ends the run without a save and without end()") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 5));
    const auto recorder = std::make_shared<StepRecorder>();
    const auto listener = std::make_shared<SaveRecorder>();
    auto call = for_steps(100);
    call.callbacks = {
        {recorder, std::make_shared<AtStep>(
                       7, [](troupe::RunControl&) { throw std::runtime_error("mine"); })},
        {listener}};
    CHECK_THROWS_WITH_AS((void)estimator.train(call),
                         doctest::Contains("AtStep failed in after_step after 7 steps of training: "
                                           "mine (std::runtime_error)"),
                         troupe::HookError);
    CHECK(recorder->ended == 0);
    CHECK(listener->ends.empty());
    CHECK(latest_step(estimator) == 5);
    CHECK(estimator.train(for_steps(1)).steps == 1);
    CHECK(latest_step(estimator) == 6);
  }

  TEST_CASE("train: on_non_finite stop ends cleanly, the newest checkpoint before it") {
    const Silence silence;
    const TempDir dir;
    const NanAt hooks(7);
    auto options = options_in(dir.path(), 5);
    options.train.batch_size = 4;
    options.train.on_non_finite = troupe::OnNonFinite::stop;
    troupe::Estimator estimator(hooks, options);
    const auto recorder = std::make_shared<StepRecorder>();
    const auto listener = std::make_shared<SaveRecorder>();
    auto call = for_steps(100);
    call.callbacks = {{recorder}, {listener}};
    const auto history = estimator.train(call);
    CHECK(history.steps == 6);
    CHECK(history.reason.find("not finite") != std::string::npos);
    CHECK(recorder->ended == 1);
    CHECK(listener->after == Steps{0, 5});
    CHECK(listener->ends == Steps{5});
    CHECK(latest_step(estimator) == 5);
    CHECK(all_finite(estimator));
    // It can be trained on.
    CHECK(estimator.train(for_steps(3)).steps == 3);
    CHECK(latest_step(estimator) == 8);
    CHECK(all_finite(estimator));
  }

  TEST_CASE("train: on_non_finite stop at the very first step leaves the fresh weights") {
    const Silence silence;
    const TempDir dir;
    const NanAt hooks(1);
    auto options = options_in(dir.path(), 5);
    options.train.on_non_finite = troupe::OnNonFinite::stop;
    troupe::Estimator estimator(hooks, options);
    CHECK(estimator.train(for_steps(100)).steps == 0);
    CHECK(latest_step(estimator) == 0);
    CHECK(estimator.train(for_steps(2)).steps == 2);
  }

  TEST_CASE("train: on_non_finite fail throws, the newest checkpoint before it") {
    const TempDir dir;
    const NanAt hooks(7);
    auto options = options_in(dir.path(), 5);
    options.train.batch_size = 4;
    troupe::Estimator estimator(hooks, options);
    const auto recorder = std::make_shared<StepRecorder>();
    auto call = for_steps(100);
    call.callbacks.actions = {recorder};
    CHECK_THROWS_AS((void)estimator.train(call), troupe::NonFiniteError);
    CHECK(recorder->ended == 0);
    CHECK(latest_step(estimator) == 5);
    CHECK(all_finite(estimator));
  }

  TEST_CASE("train: a loss that is not finite is found although the gradients are finite") {
    const Silence silence;
    const TempDir dir;
    const NanLoss hooks;
    auto options = options_in(dir.path());
    options.train.log_every = 0;
    options.train.save_summary_steps = 0;  // nobody looks at the losses
    troupe::Estimator estimator(hooks, options);
    CHECK_THROWS_WITH_AS((void)estimator.train(for_steps(3)),
                         doctest::Contains("the loss of step 1 is not finite"),
                         troupe::NonFiniteError);
    options.train.on_non_finite = troupe::OnNonFinite::stop;
    troupe::Estimator stopping(hooks, options);
    CHECK(stopping.train(for_steps(3)).steps == 1);
    CHECK(latest_step(stopping) == 0);  // nothing is saved after it
  }

  TEST_CASE("train: a save in the background that fails is a CheckpointError of the run") {
    const Silence silence;
    const TempDir dir;
    const CounterHooks hooks;
    const fs::path model_dir = dir / "run";
    // A file where the directory was: no save can succeed any more.
    const auto sabotage = [&](troupe::RunControl&) {
      fs::remove_all(model_dir);
      std::ofstream(model_dir) << "in the way";
    };
    constexpr std::int64_t kEvery = 20'000;
    auto call = for_steps(1);
    call.input = input_of({torch::ones({1000, 1})});
    for (const std::int64_t steps : {5 * kEvery, kEvery}) {  // found on the way, and at the end
      CAPTURE(steps);
      fs::remove_all(model_dir);
      troupe::Estimator estimator(hooks, options_in(model_dir, kEvery));
      call.callbacks.actions = {};
      call.steps = 1;  // with checkpoints that are good, before the next run breaks the disk
      (void)estimator.train(call);
      const auto recorder = std::make_shared<StepRecorder>();
      call.callbacks.actions = {std::make_shared<AtStep>(3, sabotage), recorder};
      call.steps = steps;
      CHECK_THROWS_AS((void)estimator.train(call), troupe::CheckpointError);
      CHECK(recorder->ended == 0);
      REQUIRE_FALSE(recorder->steps.empty());
      CHECK(recorder->steps.back() > kEvery);      // not before the save
      CHECK(recorder->steps.back() < 2 * kEvery);  // long before the next one
    }
  }
}
