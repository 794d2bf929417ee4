// train_and_evaluate and its exports: nothing is lost or done twice, and nothing fails late that
// could have been known before.
#include "tests/support/counter_hooks.h"
#include "tests/support/silence.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/estimator/offer_recorder.h"
#include "troupe/core/failure.h"
#include "troupe/estimator/train_and_evaluate.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

TEST_SUITE("estimator") {
  TEST_CASE("train_and_evaluate: an evaluation of another kind decides nothing about exports") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    (void)estimator.train(until(12));
    (void)estimator.evaluate();  // writes the event files, as --mode evaluate does
    const auto exporter = std::make_shared<OfferRecorder>();
    (void)troupe::train_and_evaluate(estimator, until(12), with(exporter, 0));
    CHECK(exporter->steps() == Steps{12});
    CHECK(exporter->final_steps() == Steps{12});
    (void)troupe::train_and_evaluate(estimator, until(12), with(exporter, 0));
    CHECK(exporter->steps() == Steps{12});
  }

  TEST_CASE("train_and_evaluate: ended between an evaluation and its export, it is made good") {
    // Ends the process, as far as the estimator can tell, at the export of one step.
    class Killer final : public troupe::Exporter {
     public:
      explicit Killer(std::int64_t step) : step_(step) {}
      [[nodiscard]] const std::string& name() const override { return name_; }
      std::optional<std::string> offer(const troupe::ExportOffer& offer) override {
        if (offer.evaluation.global_step == step_) throw troupe::CheckpointError("killed.", "");
        return std::nullopt;
      }

     private:
      std::string name_ = "recorder";
      std::int64_t step_;
    };
    const TempDir dir;
    const CounterHooks hooks;
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto run = [&](std::shared_ptr<troupe::Exporter> with_exporter) {
      troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
      (void)troupe::train_and_evaluate(estimator, until(22), with(std::move(with_exporter), 0));
    };
    SUBCASE("in the middle of training") {
      CHECK_THROWS_AS(run(std::make_shared<Killer>(10)), troupe::CheckpointError);
      run(exporter);
      CHECK(exporter->steps() == Steps{10, 20, 22});
    }
    SUBCASE("at its end") {
      CHECK_THROWS_AS(run(std::make_shared<Killer>(22)), troupe::CheckpointError);
      run(exporter);
      CHECK(exporter->steps() == Steps{22});
    }
    CHECK(exporter->final_steps() == Steps{22});
    exporter->offers.clear();
    run(exporter);
    CHECK(exporter->offers.empty());
  }

  TEST_CASE("train_and_evaluate: an exporter that fails does not end training, the end says so") {
    class FailsOnce final : public troupe::Exporter {
     public:
      [[nodiscard]] const std::string& name() const override { return name_; }
      std::optional<std::string> offer(const troupe::ExportOffer& offer) override {
        steps.push_back(offer.evaluation.global_step);
        if (steps.size() > 1) return "path";
        throw troupe::EnvironmentError("the disk is full.", "free some space.");
      }
      Steps steps;

     private:
      std::string name_ = "fragile";
    };
    const Silence silence;
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto exporter = std::make_shared<FailsOnce>();
    CHECK_THROWS_WITH_AS((void)troupe::train_and_evaluate(estimator, until(22), with(exporter, 0)),
                         doctest::Contains("'fragile' at step 10"), troupe::ExportError);
    CHECK(exporter->steps == Steps{10, 20, 22});
    CHECK(latest_step(estimator) == 22);
    CHECK(fs::exists(dir / "finished.json"));
  }

  TEST_CASE("train_and_evaluate: exports that would fail are refused before anything is started") {
    class Attention final : public TinyHooks {
     public:
      struct Net final : torch::nn::Module {
        torch::nn::TransformerEncoder encoder = register_module(
            "encoder", torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
                           torch::nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8), 1)));
        torch::Tensor forward(const torch::Tensor& x) {
          return encoder(x.expand({-1, 4}).unsqueeze(0)).squeeze(0);
        }
      };
      [[nodiscard]] troupe::Trainable create_model() const override {
        auto net = std::make_shared<Net>();
        return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
      }
      [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                     const troupe::Batch& batch) const override {
        return {{"y", replica.model<Net>().forward(batch.fields[0])}};
      }
    };
    const TempDir dir;
    troupe::EvalSpec evaluation;
    SUBCASE("a model whose trace does not depend on the batch size") {
      const Attention hooks;
      troupe::Estimator estimator(hooks, options_in(dir / "run"));
      evaluation.exporters = {troupe::make_latest_exporter("latest")};
      CHECK_THROWS_WITH_AS((void)troupe::train_and_evaluate(estimator, until(2), evaluation),
                           doctest::Contains("a batch size seems baked"), troupe::ConfigError);
    }
    SUBCASE("an operator that ONNX does not cover, or a build without ONNX") {
      class Uncovered : public TinyHooks {
        [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                       const troupe::Batch& batch) const override {
          auto predictions = TinyHooks::predict_step(replica, batch);
          predictions.front().second = predictions.front().second.digamma();
          return predictions;
        }
      };
      const Uncovered hooks;
      troupe::Estimator estimator(hooks, options_in(dir / "run"));
      evaluation.exporters = {troupe::make_onnx_exporter()};
      CHECK_THROWS_WITH_AS((void)troupe::train_and_evaluate(estimator, until(2), evaluation),
                           doctest::Contains("ONNX"), troupe::ConfigError);
    }
    SUBCASE("a metric that evaluations do not have") {
      const TinyHooks hooks;
      troupe::Estimator estimator(hooks, options_in(dir / "run"));
      evaluation.exporters = {troupe::make_best_exporter("best", troupe::larger("acuracy"))};
      CHECK_THROWS_WITH_AS((void)troupe::train_and_evaluate(estimator, until(2), evaluation),
                           doctest::Contains("'acuracy'"), troupe::ConfigError);
    }
    CHECK_FALSE(fs::exists(dir / "run"));
  }

  TEST_CASE("train_and_evaluate: a run over its epochs is evaluated once, and once per name") {
    const TempDir dir;
    const TinyHooks hooks(10);
    auto options = options_in(dir.path(), 4);
    options.train.batch_size = 4;
    options.train.epochs = 2;
    const auto exporter = std::make_shared<OfferRecorder>();
    const auto run = [&](const std::string& name) {
      exporter->offers.clear();
      troupe::Estimator estimator(hooks, options);
      auto evaluation = with(exporter, 0);
      evaluation.name = name;
      (void)troupe::train_and_evaluate(estimator, {}, evaluation);
      return exporter->steps();
    };
    CHECK(run("") == Steps{4, 6});
    CHECK(run("") == Steps{});
    CHECK(run("held_out") == Steps{6});
    CHECK(run("held_out") == Steps{});
  }

  TEST_CASE("estimator: a cluster that cannot be is refused before anything is started") {
    const CounterHooks hooks;
    const TempDir dir;
    const auto refused = [&](const char* words, const auto& change) {
      auto options = options_in(dir / "run");
      change(options.strategy.cluster);
      CHECK_THROWS_WITH_AS(troupe::Estimator(hooks, options), doctest::Contains(words),
                           troupe::ConfigError);
    };
    const troupe::Endpoint here{"127.0.0.1", 1234};
    refused("no members", [](auto& cluster) { cluster.members.clear(); });
    refused("rank -1", [](auto& cluster) { cluster.rank = -1; });
    refused("rank 1", [](auto& cluster) { cluster.rank = 1; });
    refused("without an address", [](auto& cluster) {
      cluster.members = {{"chief/0", std::nullopt}, {"worker/0", std::nullopt}};
    });
    refused("two named \"worker/0\"", [&](auto& cluster) {
      cluster.members = {{"worker/0", here}, {"worker/0", here}};
    });
    refused("without a task name", [](auto& cluster) { cluster.members = {{"", std::nullopt}}; });
    refused("server 1", [&](auto& cluster) {
      cluster.servers = {{"ps/0", here}};
      cluster.server = 1;
    });
    refused("no address for the server", [](auto& cluster) {
      cluster.servers = {{"ps/0", std::nullopt}};
    });
    refused("the evaluator", [&](auto& cluster) {
      cluster.members = {{"chief/0", here}, {"evaluator/0", std::nullopt}};
      cluster.evaluator = troupe::detail::Evaluator::self;
    });
  }
}
