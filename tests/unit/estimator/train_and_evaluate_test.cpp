// The specifications, and train_and_evaluate in one process, end to end.
#include "troupe/estimator/train_and_evaluate.h"

#include <cmath>

#include "tests/support/captured_log.h"
#include "tests/support/counter_hooks.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/estimator/offer_recorder.h"
#include "troupe/report/summary_reader.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> exports_of(const troupe::TrainAndEvaluateResult& result) {
  std::vector<std::string> paths;
  for (const auto& path : result.exports) paths.push_back(path.value_or("none"));
  return paths;
}

template <class Spec, class Change>
void check_refused(const Change& change, const char* words) {
  Spec spec;
  CHECK_NOTHROW(spec.validate());
  change(spec);
  CHECK_THROWS_WITH_AS(spec.validate(), doctest::Contains(words), troupe::ConfigError);
}

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("specs: a TrainSpec's defaults") {
    const troupe::TrainSpec spec;
    CHECK_FALSE(spec.input);
    CHECK_FALSE(spec.max_steps);
    CHECK(spec.callbacks.actions.empty());
    CHECK(spec.callbacks.listeners.empty());
  }

  TEST_CASE("specs: what a TrainSpec may not be") {
    using troupe::TrainSpec;
    for (const std::int64_t bad : {0, -1}) {
      check_refused<TrainSpec>([&](TrainSpec& spec) { spec.max_steps = bad; }, "max_steps");
    }
    check_refused<TrainSpec>([](TrainSpec& spec) { spec.callbacks.actions = {nullptr}; }, "action");
    check_refused<TrainSpec>([](TrainSpec& spec) { spec.callbacks.listeners = {nullptr}; },
                             "listener");
  }

  TEST_CASE("specs: an EvalSpec's defaults") {
    const troupe::EvalSpec spec;
    CHECK(spec.steps == 100);
    CHECK(spec.name.empty());
    CHECK(spec.start_delay_secs == 120);
    CHECK(spec.throttle_secs == 600);
    CHECK(spec.exporters.empty());
    CHECK(spec.actions.empty());
    CHECK_FALSE(spec.idle_timeout_secs);
  }

  TEST_CASE("specs: what an EvalSpec may not be") {
    using troupe::EvalSpec;
    for (const std::int64_t bad : {0, -1}) {
      check_refused<EvalSpec>([&](EvalSpec& spec) { spec.steps = bad; }, "steps");
      check_refused<EvalSpec>([&](EvalSpec& spec) { spec.batch_size = bad; }, "batch_size");
    }
    for (const double bad : {-1.0, std::nan("")}) {
      check_refused<EvalSpec>([&](EvalSpec& spec) { spec.start_delay_secs = bad; },
                              "start_delay_secs");
      check_refused<EvalSpec>([&](EvalSpec& spec) { spec.throttle_secs = bad; }, "throttle_secs");
      check_refused<EvalSpec>([&](EvalSpec& spec) { spec.idle_timeout_secs = bad; },
                              "idle_timeout_secs");
    }
    check_refused<EvalSpec>([](EvalSpec& spec) { spec.name = "a/b"; }, "a/b");
    check_refused<EvalSpec>([](EvalSpec& spec) { spec.actions = {nullptr}; }, "action");
    check_refused<EvalSpec>([](EvalSpec& spec) { spec.exporters = {nullptr}; }, "exporter");
    check_refused<EvalSpec>(
        [](EvalSpec& spec) {
          spec.exporters = {std::make_shared<OfferRecorder>("same"),
                            std::make_shared<OfferRecorder>("same")};
        },
        "same");
    EvalSpec whole;
    whole.steps.reset();
    whole.throttle_secs = 0;
    CHECK_NOTHROW(whole.validate());
  }

  TEST_CASE("train_and_evaluate: a bad specification fails before anything is started") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir / "run"));
    troupe::EvalSpec bad;
    bad.steps = 0;
    CHECK_THROWS_AS((void)troupe::train_and_evaluate(estimator, until(2), bad),
                    troupe::ConfigError);
    CHECK_THROWS_AS((void)troupe::train_and_evaluate(estimator, until(0), {}), troupe::ConfigError);
    CHECK_FALSE(fs::exists(dir / "run"));
  }

  TEST_CASE("train_and_evaluate: saves every 10 up to 22: evaluated at 10, 20 and 22") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto actions = std::make_shared<StepRecorder>();
    const auto listener = std::make_shared<SaveRecorder>();
    auto training = until(22);
    training.callbacks = {{actions}, {listener}};
    const auto result = troupe::train_and_evaluate(estimator, training, with(exporter, 0));
    CHECK(actions->begun == 1);
    CHECK(actions->steps.size() == 22);
    CHECK(listener->after == Steps{0, 10, 20, 22});
    CHECK(exporter->steps() == Steps{10, 20, 22});
    CHECK(exporter->final_steps() == Steps{22});
    for (const auto& offer : exporter->offers) {
      CHECK(offer.export_directory == (dir / "export" / "recorder").string());
      CHECK(offer.evaluation_directory == (dir / "eval").string());
      CHECK(offer.checkpoint ==
            (dir / troupe::text("model.ckpt-", offer.evaluation.global_step)).string());
    }
    REQUIRE(result.evaluation);
    CHECK(result.evaluation->global_step == 22);
    CHECK(exports_of(result) == std::vector<std::string>{"none"});
  }

  TEST_CASE("train_and_evaluate: saves every 10 up to 12: evaluated at 10 and 12") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto exporter = std::make_shared<OfferRecorder>();
    (void)troupe::train_and_evaluate(estimator, until(12), with(exporter, 0));
    CHECK(exporter->steps() == Steps{10, 12});
    CHECK(exporter->final_steps() == Steps{12});
  }

  TEST_CASE("train_and_evaluate: a long throttle leaves the first checkpoint and the last") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto exporter = std::make_shared<OfferRecorder>();
    const CapturedLog log;
    (void)troupe::train_and_evaluate(estimator, until(40), with(exporter, 100'000));
    CHECK(exporter->steps() == Steps{10, 40});
    CHECK(exporter->final_steps() == Steps{40});
    for (const char* step : {"20", "30", "40"}) {
      CHECK(log.count(std::string("model.ckpt-") + step + " skipped") == 1);
    }
  }

  TEST_CASE("train_and_evaluate: with checkpoints every 600 s a short run is evaluated once") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto listener = std::make_shared<SaveRecorder>();
    auto training = until(50);
    training.callbacks.listeners = {listener};
    (void)troupe::train_and_evaluate(estimator, training, with(exporter, 600));
    CHECK(listener->after == Steps{0, 50});
    CHECK(exporter->steps() == Steps{50});
    CHECK(exporter->final_steps() == Steps{50});
  }

  TEST_CASE("train_and_evaluate: without checkpoints it is refused") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir / "run", 0));
    CHECK_THROWS_WITH_AS((void)troupe::train_and_evaluate(estimator, until(2), {}),
                         doctest::Contains("checkpoint saver"), troupe::ConfigError);
    CHECK_FALSE(fs::exists(dir / "run"));
  }

  TEST_CASE("train_and_evaluate: the metrics of the last step come back and are on disk") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto batches = std::make_shared<StepRecorder>();
    troupe::EvalSpec evaluation;
    evaluation.name = "local_eval";
    evaluation.steps = 2;
    evaluation.batch_size = 2;
    evaluation.actions = {batches};
    evaluation.input = input_of({torch::arange(10, torch::kFloat32).unsqueeze(1)});
    const auto result = troupe::train_and_evaluate(estimator, until(12), evaluation);
    REQUIRE(result.evaluation);
    CHECK(result.evaluation->global_step == 12);
    CHECK(result.evaluation->at("mean_of_features") == 1.5);  // 0, 1, 2, 3
    CHECK(batches->steps == Steps{1, 2});
    CHECK(result.exports.empty());
    const auto history = troupe::read_scalars((dir / "eval_local_eval").string());
    REQUIRE(history.count(12) == 1);
    CHECK(history.at(12).at("mean_of_features") == 1.5);
  }

  TEST_CASE("train_and_evaluate: what exporters answer comes back, in their order") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto evaluation = with(std::make_shared<OfferRecorder>("one", "path_to_export"), 0);
    evaluation.exporters.push_back(std::make_shared<OfferRecorder>("two"));
    const auto result = troupe::train_and_evaluate(estimator, until(3), evaluation);
    CHECK(exports_of(result) == std::vector<std::string>{"path_to_export", "none"});
  }

  TEST_CASE("train_and_evaluate: once trained, nothing is trained, evaluated or exported") {
    const TempDir dir;
    const CounterHooks hooks;
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto former = [&] {
      troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
      return troupe::train_and_evaluate(estimator, until(12), with(exporter, 0));
    }();
    exporter->offers.clear();
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto actions = std::make_shared<StepRecorder>();
    auto training = until(12);
    training.callbacks.actions = {actions};
    const CapturedLog log;
    const auto result = troupe::train_and_evaluate(estimator, training, with(exporter, 0));
    REQUIRE(result.evaluation);  // of the one before
    CHECK((result.evaluation->metrics == former.evaluation->metrics));
    CHECK((result.exports == former.exports));  // glog prints vectors
    CHECK(actions->begun == 0);
    CHECK(exporter->offers.empty());
    CHECK(log.count("nothing to train") == 1);
    // Further steps are trained and evaluated as ever; the state at the start is not.
    const auto more = troupe::train_and_evaluate(estimator, until(22), with(exporter, 0));
    CHECK(exporter->steps() == Steps{20, 22});
    CHECK(more.evaluation->global_step == 22);
  }

  TEST_CASE("train_and_evaluate: what is trained until the data ends has a final evaluation too") {
    const TempDir dir;
    const TinyHooks hooks(10);
    auto options = options_in(dir.path(), 4);
    options.train.batch_size = 4;
    options.train.epochs = 2;
    troupe::Estimator estimator(hooks, options);
    const auto exporter = std::make_shared<OfferRecorder>();
    (void)troupe::train_and_evaluate(estimator, {}, with(exporter, 0));
    CHECK(exporter->steps() == Steps{4, 6});
    CHECK(exporter->final_steps() == Steps{6});
  }

  TEST_CASE("train_and_evaluate: training input is made once and goes on between evaluations") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    int training_inputs = 0;
    int evaluation_inputs = 0;
    auto training = until(30);
    training.input = [&] {
      ++training_inputs;
      return input_of({torch::ones({7, 1})})();
    };
    troupe::EvalSpec evaluation;
    evaluation.throttle_secs = 0;
    evaluation.input = [&] {
      ++evaluation_inputs;
      return input_of({torch::ones({1, 1})})();
    };
    (void)troupe::train_and_evaluate(estimator, training, evaluation);
    CHECK(training_inputs == 1);
    CHECK(evaluation_inputs == 3);
  }

  TEST_CASE("train_and_evaluate: a listener that stops training leaves a final evaluation") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto exporter = std::make_shared<OfferRecorder>();
    auto training = until(100);
    training.callbacks.listeners = {std::make_shared<SaveRecorder>(3)};
    const auto result = troupe::train_and_evaluate(estimator, training, with(exporter, 0));
    CHECK(result.evaluation->global_step == 20);
    // Nobody knew at 20 that it was the last: it is offered once more.
    CHECK(exporter->steps() == Steps{10, 20, 20});
    CHECK(exporter->final_steps() == Steps{20});
  }

  TEST_CASE(
      "train_and_evaluate: training that stops at a bad value ends with the last good model") {
    class NanLater final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = forward(replica, batch) * (++steps_ == 7 ? std::nan("") : 1.0);
        replica.apply_gradients(loss);
        return loss;
      }

     private:
      mutable int steps_ = 0;
    };
    const Silence silence;
    const TempDir dir;
    const NanLater hooks;
    auto options = options_in(dir.path(), 5);
    options.train.on_non_finite = troupe::OnNonFinite::stop;
    troupe::Estimator estimator(hooks, options);
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto result = troupe::train_and_evaluate(estimator, until(100), with(exporter, 0));
    REQUIRE(result.evaluation);
    CHECK(result.evaluation->global_step == 5);
    CHECK(std::isfinite(result.evaluation->at("loss")));
    CHECK(exporter->steps() == Steps{5, 5});
    CHECK(exporter->final_steps() == Steps{5});
  }
}
