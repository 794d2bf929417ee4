// Estimator::evaluate: what is measured, of which weights, and where it is written.
#include <fstream>

#include "tests/support/captured_log.h"
#include "tests/support/counter_hooks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/estimator/estimator.h"
#include "troupe/report/summary_reader.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

/// Every example's loss is its own value.
class ValueLoss final : public CounterHooks {
 public:
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    return replica.global_mean(batch.fields[0].squeeze(1));
  }
};

troupe::EvaluateCall on(std::vector<float> values, std::int64_t batch_size) {
  troupe::EvaluateCall call;
  call.input = input_of({torch::tensor(values).unsqueeze(1)});
  call.batch_size = batch_size;
  return call;
}

/// Counters whose evaluation reports `name` once more.
class WithMetric final : public CounterHooks {
 public:
  explicit WithMetric(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] troupe::MetricSet create_metrics() const override {
    return CounterHooks::create_metrics().add<troupe::Mean>(name_);
  }

 private:
  std::string name_;
};

class WithLosses final : public CounterHooks {
 public:
  explicit WithLosses(std::vector<std::string> names) : names_(std::move(names)) {}
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch&) const override {
    troupe::StepResult result;
    for (const auto& name : names_) {
      const auto value = torch::full({}, 1.0 + result.losses.size());
      result.losses.emplace_back(name, replica.local_loss(value));
    }
    return result;
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("evaluate: the loss is the mean of the batches' losses") {
    const TempDir dir;
    const ValueLoss hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto call = on({2, 4, 6, 8, 10}, 1);
    call.steps = 5;
    CHECK(estimator.evaluate(call).at("loss") == 6);
    call.steps = 2;
    CHECK(estimator.evaluate(call).at("loss") == 3);
    call.steps = 50;  // the data ends before
    CHECK(estimator.evaluate(call).at("loss") == 6);
  }

  TEST_CASE("evaluate: forward passes have training's precision, and so have predictions") {
    class Types final : public CounterHooks {
     public:
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch& batch) const override {
        seen.push_back(torch::mm(batch.fields[0], torch::ones({1, 1})).scalar_type());
        return replica.global_mean(batch.fields[0].squeeze(1));
      }
      [[nodiscard]] troupe::Predictions predict_step(troupe::Replica&,
                                                     const troupe::Batch& batch) const override {
        const auto y = torch::mm(batch.fields[0], torch::ones({1, 1}));
        seen.push_back(y.scalar_type());
        return {{"y", y}};
      }
      mutable std::vector<at::ScalarType> seen;
    };
    const TempDir dir;
    const Types hooks;
    auto options = options_in(dir.path());
    options.strategy.step.precision = troupe::Precision::bfloat16;
    troupe::Estimator estimator(hooks, options);
    (void)estimator.evaluate({});
    auto stream = estimator.predict({});
    CHECK((stream.next()->front().second.scalar_type() == torch::kFloat32));
    CHECK((hooks.seen == std::vector<at::ScalarType>(2, torch::kBFloat16)));
  }

  TEST_CASE("evaluate: two batches weigh the same in the loss, their examples in the average") {
    const TempDir dir;
    const ValueLoss hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto evaluation = estimator.evaluate(on({10, 12, 22}, 2));
    CHECK(evaluation.at("loss") == 16.5);
    CHECK(evaluation.at("average_loss") == doctest::Approx(44.0 / 3));
  }

  TEST_CASE("evaluate: steps below 1 and reserved names are refused") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    for (const std::int64_t bad : {0, -1}) {
      troupe::EvaluateCall call;
      call.steps = bad;
      CHECK_THROWS_WITH_AS((void)estimator.evaluate(call), doctest::Contains("steps is"),
                           troupe::ConfigError);
    }
    CHECK_THROWS_AS((void)estimator.evaluate(on({1}, 0)), troupe::ConfigError);
    for (const char* name : {"loss", "global_step", "average_loss"}) {
      CAPTURE(name);
      const WithMetric reserved(name);
      troupe::Estimator other(reserved, options_in(dir.path()));
      CHECK_THROWS_WITH_AS((void)other.evaluate(), doctest::Contains(name), troupe::ConfigError);
    }
    using Names = std::vector<std::string>;
    for (const Names& names : {Names{"first", "global_step"}, Names{"first", "average_loss"},
                               Names{"first", "loss"}, Names{"loss", "loss"}}) {
      CAPTURE(names[1]);
      const WithLosses reserved(names);
      troupe::Estimator other(reserved, options_in(dir.path()));
      CHECK_THROWS_WITH_AS((void)other.evaluate(), doctest::Contains(names[1].c_str()),
                           troupe::ConfigError);
    }
    const WithLosses two({"generator", "discriminator"});
    const auto evaluation = troupe::Estimator(two, options_in(dir.path())).evaluate();
    CHECK(evaluation.at("loss") == 1);
    CHECK(evaluation.at("generator") == 1);
    CHECK(evaluation.at("discriminator") == 2);
  }

  TEST_CASE("evaluate: without a checkpoint the initial weights are evaluated") {
    const TempDir dir;
    const TinyHooks hooks(10);
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const CapturedLog log;
    const auto evaluation = estimator.evaluate();
    CHECK(evaluation.global_step == 0);
    // w = 0.5, b = -0.25 on y = 2 x + 1: the error is 1.5 x + 1.25, x = 0 .. 0.9.
    CHECK(evaluation.at("absolute_error") == doctest::Approx(1.5 * 0.45 + 1.25));
    CHECK(log.count("fresh weights are evaluated") == 1);
    CHECK_FALSE(estimator.latest_checkpoint());
  }

  TEST_CASE("evaluate: without a checkpoint a warm start's weights are evaluated and predict") {
    const TempDir source;
    const TempDir dir;
    const TinyHooks hooks(10);
    troupe::Estimator trained(hooks, options_in(source.path()));
    (void)trained.train(for_steps(20));
    auto options = options_in(dir.path());
    options.train.warm_start.from = source.path().string();
    troupe::Estimator warm(hooks, options);
    const auto evaluation = warm.evaluate();
    CHECK(evaluation.global_step == 0);
    CHECK(evaluation.at("loss") == trained.evaluate().at("loss"));
    CHECK(torch::equal(warm.predict().next()->front().second,
                       trained.predict().next()->front().second));
  }

  TEST_CASE("evaluate: another run's checkpoint can be named, and leaves no trace") {
    const TempDir one;
    const TempDir other;
    const TinyHooks hooks(10);
    troupe::Estimator trained(hooks, options_in(one.path()));
    (void)trained.train(for_steps(5));
    troupe::Estimator estimator(hooks, options_in(other.path()));
    const double fresh = estimator.evaluate().at("loss");
    troupe::EvaluateCall call;
    for (const char* slash : {"", "/"}) {
      call.checkpoint = (one / "model.ckpt-5").string() + slash;
      const auto evaluation = estimator.evaluate(call);
      CHECK(evaluation.global_step == 5);
      CHECK(evaluation.at("loss") == trained.evaluate().at("loss"));
    }
    CHECK(estimator.evaluate().global_step == 0);
    CHECK(estimator.evaluate().at("loss") == fresh);
    call.checkpoint = (one / "model.ckpt-4").string();
    CHECK_THROWS_AS((void)estimator.evaluate(call), troupe::CheckpointError);
    call.checkpoint = one.path().string();
    CHECK_THROWS_AS((void)estimator.evaluate(call), troupe::ConfigError);
  }

  TEST_CASE("evaluate: a named checkpoint of step 0 is not taken for fresh weights afterwards") {
    const TempDir one;
    const TempDir other;
    class Filled final : public CounterHooks {
     public:
      using CounterHooks::CounterHooks;
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch&) const override {
        return replica.local_loss(replica.parameters().front().second.sum());
      }
    };
    const Filled seven(7);
    (void)troupe::Estimator(seven, options_in(one.path())).train(for_steps(1));
    const Filled three(3);
    troupe::Estimator estimator(three, options_in(other.path()));
    troupe::EvaluateCall call;
    call.checkpoint = (one / "model.ckpt-0").string();
    CHECK(estimator.evaluate(call).at("loss") == 7);
    CHECK(estimator.evaluate().at("loss") == 3);
  }

  TEST_CASE("evaluate: an action is called around every batch, and may end it") {
    const TempDir dir;
    const ValueLoss hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto recorder = std::make_shared<StepRecorder>();
    auto call = on({2, 4, 6, 8, 10, 12}, 1);
    call.steps = 5;
    call.actions = {recorder};
    (void)estimator.evaluate(call);
    CHECK(recorder->steps == Steps{1, 2, 3, 4, 5});
    CHECK(recorder->begun == 1);
    CHECK(recorder->ended == 1);
    class StopAtOnce final : public troupe::PeriodicAction {
     public:
      void after_step(const troupe::StepReport&, troupe::RunControl& run) override {
        run.request_stop("enough");
      }
    };
    call.actions = {std::make_shared<StopAtOnce>()};
    CHECK(estimator.evaluate(call).at("loss") == 2);
  }

  TEST_CASE("evaluate: with a number of steps there are about ten lines of progress") {
    const TempDir dir;
    const ValueLoss hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto call = on(std::vector<float>(120, 1), 1);
    const auto lines = [&](std::optional<std::int64_t> steps) {
      const CapturedLog log;
      call.steps = steps;
      (void)estimator.evaluate(call);
      CHECK(log.count("average_loss = 1, global_step = 0, loss = 1") == 1);
      return std::pair{log.count("evaluation ["), log.text()};
    };
    CHECK(lines(std::nullopt).first == 0);
    CHECK(lines(7).first == 7);
    const auto [count, text] = lines(100);
    CHECK(count == 10);
    CHECK(text.find("[10/100]") != std::string::npos);
    CHECK(text.find("[100/100]") != std::string::npos);
  }

  TEST_CASE("evaluate: results go to the evaluation's directory, with the checkpoint's name") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    (void)estimator.train(for_steps(5));
    troupe::EvaluateCall call;
    call.name = "foo";
    (void)estimator.evaluate(call);
    CHECK_FALSE(fs::exists(dir / "eval"));
    (void)estimator.evaluate();
    CHECK(estimator.evaluation_directory("foo") == (dir / "eval_foo").string());
    for (const char* name : {"eval_foo", "eval"}) {
      CAPTURE(name);
      const auto history = troupe::read_scalars((dir / name).string());
      REQUIRE(history.count(5) == 1);
      using Tags = std::map<std::string, double>;
      CHECK(history.at(5) == Tags{{"loss", 0}, {"average_loss", 0}, {"mean_of_features", 1}});
      std::string all;
      for (const auto& entry : fs::directory_iterator(dir / name)) {
        std::ifstream file(entry.path(), std::ios::binary);
        all.append(std::istreambuf_iterator<char>(file), {});
      }
      CHECK(all.find("checkpoint_path") != std::string::npos);
      CHECK(all.find((dir / "model.ckpt-5").string()) != std::string::npos);
    }
  }

  TEST_CASE("evaluate: the validation split, or else the test split with its own step") {
    class TestOnly final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Splits create_datasets() const override {
        return {nullptr, nullptr, TinyHooks::create_datasets().test};
      }
      [[nodiscard]] troupe::StepResult test_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
        (void)forward(replica, batch);
        return torch::full({}, 42.0);
      }
    };
    const TempDir dir;
    const TestOnly hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto evaluation = estimator.evaluate();
    CHECK(evaluation.at("loss") == 42);
    CHECK(evaluation.at("absolute_error") > 1);
    class NoData final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Splits create_datasets() const override { return {}; }
    };
    const NoData nothing;
    troupe::Estimator without(nothing, options_in(dir.path()));
    CHECK_THROWS_WITH_AS((void)without.evaluate(), doctest::Contains("no data"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)without.predict(), doctest::Contains("no data"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)without.train(), doctest::Contains("no training data"),
                         troupe::ConfigError);
  }

  TEST_CASE("evaluate: a step without a loss, or with one that is no scalar, is refused") {
    class Bad final : public CounterHooks {
     public:
      explicit Bad(troupe::StepResult result) : result_(std::move(result)) {}
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica&,
                                                  const troupe::Batch&) const override {
        return result_;
      }
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica&,
                                                       const troupe::Batch&) const override {
        return result_;
      }

     private:
      troupe::StepResult result_;
    };
    const TempDir dir;
    const Bad none({});
    const Bad undefined(at::Tensor{});
    const Bad vector(torch::tensor({{1.0, 2.0}}));
    for (const Bad* hooks : {&none, &undefined, &vector}) {
      troupe::Estimator estimator(*hooks, options_in(dir.path()));
      CHECK_THROWS_WITH_AS((void)estimator.evaluate(), doctest::Contains("loss"),
                           troupe::ConfigError);
      CHECK_THROWS_WITH_AS((void)estimator.train(for_steps(1)), doctest::Contains("loss"),
                           troupe::ConfigError);
    }
    class OneElement final : public CounterHooks {
     public:
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch&) const override {
        return replica.local_loss(torch::tensor(3.0)).reshape({1});
      }
    };
    const OneElement one_element;
    CHECK(troupe::Estimator(one_element, options_in(dir.path())).evaluate().at("loss") == 3);
  }
}
