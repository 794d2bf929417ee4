// Estimator::predict and export_model, and the extenders: added metrics, forwarded features.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/captured_log.h"
#include "tests/support/counter_hooks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/estimator/extenders.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

using Predict = std::function<troupe::Predictions(const troupe::Batch&)>;

/// Counters that predict what the test says.
class Predicting final : public CounterHooks {
 public:
  explicit Predicting(Predict predict) : predict_(std::move(predict)) {}
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica&,
                                                 const troupe::Batch& batch) const override {
    ++calls;
    return predict_(batch);
  }
  mutable int calls = 0;

 private:
  Predict predict_;
};

/// A call on `examples` examples 0, 1, 2 ... in batches of `batch_size`.
troupe::PredictCall on_examples(std::int64_t examples, std::int64_t batch_size) {
  troupe::PredictCall call;
  call.input = input_of({torch::arange(examples, torch::kFloat32).unsqueeze(1)});
  call.batch_size = batch_size;
  return call;
}

std::vector<troupe::Predictions> all_of(troupe::PredictionStream stream) {
  std::vector<troupe::Predictions> all;
  while (auto next = stream.next()) all.push_back(std::move(*next));
  CHECK_FALSE(stream.next());
  return all;
}

std::vector<std::string> names_of(const troupe::Predictions& predictions) {
  std::vector<std::string> names;
  for (const auto& [name, value] : predictions) names.push_back(name);
  return names;
}
using Names = std::vector<std::string>;

troupe::Predictions two_outputs(const troupe::Batch& batch) {
  return {{"y1", batch.fields[0] + 10}, {"y2", batch.fields[0] * 2}};
}

/// Features x = 0, 1, 2, 3 and "id" beside them, the label 2 x; "auc" of its own.
class Scored : public CounterHooks {
 public:
  [[nodiscard]] troupe::MetricSet create_metrics() const override {
    return CounterHooks::create_metrics().add<troupe::Mean>("auc");
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    const auto x = torch::arange(4, torch::kFloat32);
    const auto all = std::make_shared<troupe::TensorDataset>(
        std::vector<at::Tensor>{x.unsqueeze(1), x.to(torch::kInt64) + 100, 2 * x.unsqueeze(1)});
    return {all, all, all};
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    replica.metric("auc").update(torch::full_like(batch.fields[0], 0.25));
    return CounterHooks::validation_step(replica, batch);
  }
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica&,
                                                 const troupe::Batch& batch) const override {
    CHECK(batch.fields.size() == 2);  // no labels
    return {{"prediction", batch.fields[0] * 3}};
  }
};

troupe::EstimatorOptions scored_in(const TempDir& dir) {
  auto options = options_in(dir.path());
  options.feature_names = {"x", "id"};
  options.train.batch_size = 3;
  return options;
}

troupe::AddedMetric mean_of(std::string name,
                            std::function<at::Tensor(const troupe::MetricInputs&)> what) {
  return troupe::added<troupe::Mean>(std::move(name), [what](const troupe::MetricInputs& inputs) {
    return std::pair<at::Tensor, at::Tensor>{what(inputs), {}};
  });
}

troupe::AddedMetric constant(std::string name, double value) {
  return mean_of(std::move(name), [value](const troupe::MetricInputs& inputs) {
    return torch::full_like(inputs.feature("x"), value);
  });
}

nlohmann::json json_in(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("predict: one prediction per example, over batches") {
    const TempDir dir;
    const Predicting hooks([](const auto& batch) {
      return troupe::Predictions{{"y", batch.fields[0] + 1}};
    });
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    for (const std::int64_t batch_size : {1, 2, 3, 64}) {
      CAPTURE(batch_size);
      const auto all = all_of(estimator.predict(on_examples(3, batch_size)));
      REQUIRE(all.size() == 3);
      for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].front().second.sizes() == at::IntArrayRef{1});
        CHECK(all[i].front().second.item<double>() == static_cast<double>(i + 1));
      }
    }
  }

  TEST_CASE("predict: a batch is computed when it is asked for") {
    const TempDir dir;
    const Predicting hooks(two_outputs);
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto stream = estimator.predict(on_examples(6, 2));
    CHECK(hooks.calls == 0);
    (void)stream.next();
    (void)stream.next();
    CHECK(hooks.calls == 1);
    auto moved = std::move(stream);
    (void)moved.next();
    CHECK(hooks.calls == 2);
  }

  TEST_CASE("predict: outputs of different batch lengths are given as batches only") {
    const TempDir dir;
    const Predicting hooks([](const auto&) {
      return troupe::Predictions{{"y1", torch::ones({3})}, {"y2", torch::ones({5, 3})}};
    });
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto call = on_examples(1, 1);
    CHECK_THROWS_WITH_AS((void)estimator.predict(call).next(), doctest::Contains("batch length"),
                         troupe::ConfigError);
    call.yield_single_examples = false;
    const auto all = all_of(estimator.predict(call));
    REQUIRE(all.size() == 1);
    CHECK(all[0][0].second.sizes() == at::IntArrayRef{3});
    CHECK(all[0][1].second.sizes() == at::IntArrayRef{5, 3});
    // A scalar has no batch length at all.
    const Predicting scalar([](const auto&) {
      return troupe::Predictions{{"y", torch::ones({})}};
    });
    troupe::Estimator other(scalar, options_in(dir.path()));
    call.yield_single_examples = true;
    CHECK_THROWS_AS((void)other.predict(call).next(), troupe::ConfigError);
  }

  TEST_CASE("predict: keys choose outputs, and one of them at least must be there") {
    const TempDir dir;
    const Predicting hooks(two_outputs);
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    auto call = on_examples(1, 1);
    call.keys = {"y3"};
    CHECK_THROWS_WITH_AS((void)estimator.predict(call).next(), doctest::Contains("y1, y2"),
                         troupe::ConfigError);
    call.keys = {"y1"};
    CHECK(names_of(*estimator.predict(call).next()) == Names{"y1"});
    call.keys = {"y2", "y3"};
    CHECK(names_of(*estimator.predict(call).next()) == Names{"y2"});
    call.keys = {};
    CHECK(names_of(*estimator.predict(call).next()) == Names{"y1", "y2"});
  }

  TEST_CASE("predict: each example's outputs belong together") {
    const TempDir dir;
    const Predicting hooks([](const auto&) {
      return troupe::Predictions{{"y1", torch::tensor({10, 12})}, {"y2", torch::tensor({0, 2})}};
    });
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    const auto all = all_of(estimator.predict(on_examples(2, 2)));
    REQUIRE(all.size() == 2);
    CHECK(all[0][0].second.item<int>() == 10);
    CHECK(all[0][1].second.item<int>() == 0);
    CHECK(all[1][0].second.item<int>() == 12);
    CHECK(all[1][1].second.item<int>() == 2);
  }

  TEST_CASE("predict: the newest checkpoint's weights, or a named one's, or fresh ones") {
    const TempDir dir;
    const TinyHooks hooks(10);
    troupe::Estimator estimator(hooks, options_in(dir.path(), 5));
    const auto first = [&](const std::string& checkpoint) {
      auto call = on_examples(1, 1);
      call.checkpoint = checkpoint;
      return estimator.predict(call).next()->front().second.item<float>();
    };
    {
      const CapturedLog log;
      CHECK(first("") == -0.25F);
      CHECK(log.count("fresh weights predict") == 1);
    }
    (void)estimator.train(for_steps(10));
    const auto bias = estimator.variable_value("bias").item<float>();
    CHECK(bias != -0.25F);
    CHECK(first("") == bias);
    CHECK(first((dir / "model.ckpt-0").string()) == -0.25F);
    CHECK(first((dir / "model.ckpt-5").string()) != bias);
    CHECK_THROWS_AS((void)first((dir / "model.ckpt-7").string()), troupe::CheckpointError);
  }

  TEST_CASE("predict: hooks without predict_step are told what to write") {
    class Silent final : public CounterHooks {
     public:
      [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                     const troupe::Batch& batch) const override {
        return troupe::Hooks::predict_step(replica, batch);
      }
    };
    const TempDir dir;
    const Silent hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    CHECK_THROWS_WITH_AS((void)estimator.predict().next(), doctest::Contains("predict_step"),
                         troupe::ConfigError);
  }

  TEST_CASE("export: of several outputs the first is the default one") {
    const TempDir dir;
    const Predicting two(two_outputs);
    auto options = options_in(dir.path());
    troupe::Estimator estimator(two, options);
    const std::string base = (dir / "exports").string();
    CHECK_THROWS_WITH_AS((void)estimator.export_model(base), doctest::Contains("no trained model"),
                         troupe::ConfigError);
    CHECK_FALSE(fs::exists(base));
    (void)estimator.train(for_steps(2));
    const auto both = json_in(fs::path(estimator.export_model(base)) / "signature.json");
    CHECK(both.at("default_output") == "y1");
    CHECK(both.at("outputs").size() == 2);
    CHECK(both.at("global_step") == 2);
    const Predicting one([](const auto& batch) {
      return troupe::Predictions{{"alone", batch.fields[0] + 1}};
    });
    troupe::Estimator single(one, options);
    const auto path = single.export_model(base, (dir / "model.ckpt-0").string());
    const auto alone = json_in(fs::path(path) / "signature.json");
    CHECK(alone.at("default_output") == "alone");
    CHECK(alone.at("global_step") == 0);
    CHECK(alone.at("inputs").at(0).at("name") == "input");
  }

  TEST_CASE("extenders: an added metric stands beside the estimator's own") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    (void)plain.train(for_steps(5));
    const auto feature_mean = [](const troupe::MetricInputs& in) { return in.feature("x"); };
    const auto error = [](const troupe::MetricInputs& in) {
      CHECK_FALSE(in.config.model_dir.empty());
      return (in.prediction("prediction") - in.label()).abs();
    };
    auto extended =
        troupe::add_metrics(plain, {mean_of("mean_x", feature_mean), mean_of("error", error)});
    const auto evaluation = extended.evaluate();
    CHECK(evaluation.at("mean_x") == 1.5);
    CHECK(evaluation.at("error") == 1.5);  // 3 x - 2 x
    CHECK(evaluation.at("mean_of_features") == 1.5);
    CHECK(evaluation.at("auc") == 0.25);
    CHECK(evaluation.at("loss") == 0);
    CHECK(evaluation.global_step == 5);
    CHECK(extended.config().model_dir == plain.config().model_dir);
    CHECK_THROWS_AS((void)plain.evaluate().at("mean_x"), troupe::ConfigError);
  }

  TEST_CASE("extenders: an added metric replaces one of its name, and extenders compose") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    auto twice = troupe::add_metrics(plain, {constant("auc", 2.0)});
    const auto evaluation = twice.evaluate();
    CHECK(evaluation.at("auc") == 2);
    CHECK(evaluation.metrics.size() == 4);  // loss, average_loss, mean_of_features, auc
    auto thrice = troupe::add_metrics(twice, {constant("auc", 3.0), constant("more", 4.0)});
    CHECK(thrice.evaluate().at("auc") == 3);
    CHECK(thrice.evaluate().at("more") == 4);
    CHECK(thrice.evaluate().metrics.size() == 5);
    // Also with another extender between them.
    auto between =
        troupe::add_metrics(troupe::forward_features(twice, {"id"}), {constant("auc", 5.0)});
    CHECK(between.evaluate().at("auc") == 5);
  }

  TEST_CASE("extenders: what a metric asks for and is not there is named") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    const auto unknown_feature = [](const troupe::MetricInputs& in) { return in.feature("z"); };
    const auto unknown_output = [](const troupe::MetricInputs& in) { return in.prediction("z"); };
    CHECK_THROWS_WITH_AS(
        (void)troupe::add_metrics(plain, {mean_of("m", unknown_feature)}).evaluate(),
        doctest::Contains("use one of: x, id"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(
        (void)troupe::add_metrics(plain, {mean_of("m", unknown_output)}).evaluate(),
        doctest::Contains("use one of: prediction"), troupe::ConfigError);
    auto all_inputs = scored_in(dir);
    all_inputs.feature_names = {"x", "id", "y"};
    class NoLabel final : public Scored {
     public:
      [[nodiscard]] troupe::Predictions predict_step(troupe::Replica&,
                                                     const troupe::Batch&) const override {
        return {};
      }
    };
    const NoLabel no_label;
    troupe::Estimator without(no_label, all_inputs);
    const auto label = [](const troupe::MetricInputs& in) { return in.label(); };
    CHECK_THROWS_WITH_AS((void)troupe::add_metrics(without, {mean_of("m", label)}).evaluate(),
                         doctest::Contains("no label"), troupe::ConfigError);
  }

  TEST_CASE("extenders: names that results use themselves cannot be added") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    for (const std::string name : {"", "loss", "global_step", "average_loss", "+auc"}) {
      CAPTURE(name);
      CHECK_THROWS_AS((void)troupe::add_metrics(plain, {constant(name, 1)}), troupe::ConfigError);
    }
    CHECK_THROWS_AS((void)troupe::add_metrics(plain, {troupe::AddedMetric{"m", nullptr, {}}}),
                    troupe::ConfigError);
  }

  TEST_CASE("extenders: training of an extended estimator is the first one's") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    auto extended = troupe::add_metrics(plain, {constant("m", 1)});
    (void)extended.train(for_steps(3));
    CHECK(latest_step(plain) == 3);
    CHECK(plain.train(for_steps(2)).steps == 2);
    CHECK(extended.train(for_steps(2)).steps == 2);
    CHECK(extended.evaluate().global_step == 7);
  }

  TEST_CASE("forward_features: predictions carry the chosen features") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    auto some = troupe::forward_features(plain, {"id"});
    const auto all = all_of(some.predict());
    REQUIRE(all.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(names_of(all[i]) == Names{"prediction", "id"});
      CHECK(all[i][0].second.item<double>() == 3.0 * static_cast<double>(i));
      CHECK(all[i][1].second.item<std::int64_t>() == static_cast<std::int64_t>(100 + i));
    }
    auto every = troupe::forward_features(plain);
    CHECK(names_of(*every.predict().next()) == Names{"prediction", "x", "id"});
    auto both = troupe::forward_features(troupe::forward_features(plain, {"id"}), {"x"});
    CHECK(names_of(*both.predict().next()) == Names{"prediction", "id", "x"});
    CHECK(names_of(*plain.predict().next()) == Names{"prediction"});
  }

  TEST_CASE("forward_features: keys that are no feature, or are taken, are refused") {
    const TempDir dir;
    const Scored hooks;
    troupe::Estimator plain(hooks, scored_in(dir));
    CHECK_THROWS_WITH_AS((void)troupe::forward_features(plain, {"z"}).predict().next(),
                         doctest::Contains("use one of: x, id"), troupe::ConfigError);
    auto twice = troupe::forward_features(troupe::forward_features(plain, {"id"}), {"id"});
    CHECK_THROWS_WITH_AS((void)twice.predict().next(), doctest::Contains("\"id\""),
                         troupe::ConfigError);
  }

  TEST_CASE("forward_features: features without names are called input, and are exported too") {
    const TempDir dir;
    const TinyHooks hooks(10);
    troupe::Estimator plain(hooks, options_in(dir.path()));
    (void)plain.train(for_steps(1));
    auto forwarding = troupe::forward_features(plain);
    CHECK(names_of(*forwarding.predict().next()) == Names{"y", "input"});
    const auto path = forwarding.export_model((dir / "exports").string());
    const auto signature = json_in(fs::path(path) / "signature.json");
    CHECK(signature.at("outputs").size() == 2);
    CHECK(signature.at("default_output") == "y");
  }
}
