// Estimator as programs use it: models that learn from training to predictions, and evaluations in
// the middle of training, which it does not notice.
#include <cmath>
#include <fstream>

#include "tests/support/counter_hooks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/clock.h"
#include "troupe/estimator/train_and_evaluate.h"
#include "troupe/report/summary_reader.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

/// Random initial weights, dropout, and an evaluation that draws numbers of its own.
class RandomHooks final : public TinyHooks {
 public:
  struct Net final : torch::nn::Module {
    torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(1, 8));
    torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.5));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
    torch::Tensor forward(const torch::Tensor& x) { return out(dropout(hidden(x))); }
  };
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = loss_of(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    (void)torch::rand({3});
    return loss_of(replica, batch);
  }
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
    return {{"y", replica.model<Net>().forward(batch.fields[0])}};
  }

 private:
  [[nodiscard]] static at::Tensor loss_of(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [x, target] = batch.unpack<2>();
    return replica.global_mean(
        replica.loss("squared_error")(replica.model<Net>().forward(x), target));
  }
};

/// The weights that `run` trains for 12 steps, all in one row.
at::Tensor weights_after(const std::function<void(troupe::Estimator&)>& run) {
  const TempDir dir;
  const RandomHooks hooks;
  auto options = options_in(dir.path(), 1);
  options.train.batch_size = 4;
  troupe::Estimator estimator(hooks, options);
  run(estimator);
  CHECK(latest_step(estimator) == 12);
  std::vector<at::Tensor> all;
  for (const auto& name : estimator.variable_names()) {
    all.push_back(estimator.variable_value(name).flatten());
  }
  return torch::cat(all);
}

/// Evaluates and predicts at every checkpoint, as a program might, and exports once.
class Busy final : public troupe::SavingListener {
 public:
  Busy(troupe::Estimator& estimator, std::string exports)
      : estimator_(estimator), exports_(std::move(exports)) {}
  bool after_save(const troupe::SavedCheckpoint& saved) override {
    (void)estimator_.evaluate();
    auto predictions = estimator_.predict();
    while (predictions.next()) ++count;
    if (saved.step == 6) (void)estimator_.export_model(exports_);  // one a second is possible
    return false;
  }
  int count = 0;

 private:
  troupe::Estimator& estimator_;
  std::string exports_;
};

/// Three classes by the largest of three inputs, with weights that start at 0.
class Classifier final : public troupe::Hooks {
 public:
  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const at::Tensor& scores, const at::Tensor& target) {
               return torch::nn::functional::cross_entropy(
                   scores, target,
                   torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
             }}};
  }
  [[nodiscard]] troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("accuracy");
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    torch::nn::Linear line(3, 3);
    const torch::NoGradGuard no_grad;
    line->weight.zero_();
    line->bias.zero_();
    return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.5)};
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    const auto x = torch::sin(torch::arange(60 * 3, torch::kFloat32) * 1.7).view({60, 3});
    const auto all =
        std::make_shared<troupe::TensorDataset>(std::vector<at::Tensor>{x, x.argmax(1)});
    return {all, all, all};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }
  [[nodiscard]] troupe::Predictions predict_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
    return {{"scores", replica.model<torch::nn::LinearImpl>().forward(batch.fields[0])}};
  }

 private:
  [[nodiscard]] static at::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [x, target] = batch.unpack<2>();
    const auto scores = replica.model<torch::nn::LinearImpl>().forward(x);
    replica.metric("accuracy").update(scores, target);
    return replica.global_mean(replica.loss("cross_entropy")(scores, target));
  }
};

/// Whether `dir` holds exports, and nothing but: folders of ten digits.
bool holds_exports(const fs::path& dir) {
  if (!fs::exists(dir) || fs::is_empty(dir)) return false;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename();
    if (name.size() != 10 || name.find_first_not_of("0123456789") != std::string::npos) {
      return false;
    }
    if (!fs::exists(entry.path() / "model.pt")) return false;
  }
  return true;
}

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("flow: a linear classifier, from training to predictions") {
    const TempDir dir;
    const Classifier hooks;
    auto options = options_in(dir.path());
    options.train.batch_size = 20;
    options.train.save_summary_steps = 9;
    troupe::Estimator estimator(hooks, options);
    troupe::EvalSpec evaluation;
    evaluation.name = "foo";
    evaluation.exporters = {troupe::make_latest_exporter("latest")};
    troupe::TrainSpec training;
    training.max_steps = 10;
    const auto result = troupe::train_and_evaluate(estimator, training, evaluation);
    REQUIRE(result.evaluation);
    CHECK(result.evaluation->at("loss") < 1.0);  // log 3 at the start

    const auto trained = troupe::read_scalars(dir.path().string());
    for (const std::int64_t step : {1, 10}) {
      REQUIRE(trained.count(step) == 1);
      CHECK(trained.at(step).count("loss") == 1);
    }
    CHECK(trained.at(1).at("loss") == doctest::Approx(std::log(3.0)));
    const auto evaluated = troupe::read_scalars((dir / "eval_foo").string());
    REQUIRE(evaluated.count(10) == 1);
    CHECK(evaluated.at(10).at("loss") ==
          doctest::Approx(result.evaluation->at("loss")).epsilon(1e-6));
    CHECK(holds_exports(dir / "export" / "latest"));
    REQUIRE(result.exports.size() == 1);
    CHECK(fs::exists(*result.exports[0]));

    troupe::PredictCall call;
    call.batch_size = 10;
    call.yield_single_examples = false;
    const auto scores = estimator.predict(call).next();
    REQUIRE(scores);
    CHECK(scores->front().second.sizes() == at::IntArrayRef{10, 3});
  }

  TEST_CASE("flow: a linear model of 200 steps learns, and is exported") {
    const TempDir dir;
    const TinyHooks hooks(10);
    auto options = options_in(dir.path());
    options.train.batch_size = 5;
    troupe::Estimator estimator(hooks, options);
    (void)estimator.train(for_steps(200));
    const auto evaluation = estimator.evaluate();
    CHECK(evaluation.global_step == 200);
    CHECK(evaluation.at("average_loss") < 0.05);
    CHECK(fs::exists(fs::path(estimator.export_model((dir / "export").string())) / "model.pt"));
    CHECK(holds_exports(dir / "export"));
  }

  TEST_CASE("evaluate: training with evaluations is training without, bit for bit") {
    const auto plain = weights_after([](auto& estimator) { (void)estimator.train(for_steps(12)); });
    CHECK(torch::equal(plain, weights_after([](troupe::Estimator& estimator) {
                         troupe::EvalSpec evaluation;
                         evaluation.throttle_secs = 0;
                         troupe::TrainSpec training;
                         training.max_steps = 12;
                         const auto result =
                             troupe::train_and_evaluate(estimator, training, evaluation);
                         CHECK(result.evaluation->global_step == 12);
                       })));
    CHECK(torch::equal(plain, weights_after([](troupe::Estimator& estimator) {
                         const TempDir exports;
                         const auto busy = std::make_shared<Busy>(estimator, exports.path());
                         auto call = for_steps(12);
                         call.callbacks.listeners = {busy};
                         (void)estimator.train(call);
                         CHECK(busy->count == 130);
                       })));
    // The test would not see a difference without dropout.
    CHECK_FALSE(torch::equal(plain, weights_after([](troupe::Estimator& estimator) {
                               auto call = for_steps(6);
                               (void)estimator.train(call);
                               class Draw final : public troupe::PeriodicAction {
                                public:
                                 void before_step(troupe::RunControl&) override {
                                   (void)torch::rand({1});
                                 }
                                 void after_step(const troupe::StepReport&,
                                                 troupe::RunControl&) override {}
                               };
                               call.callbacks.actions = {std::make_shared<Draw>()};
                               (void)estimator.train(call);
                             })));
  }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory
  TEST_CASE("evaluate: 200 evaluations in one process do not grow it") {
    const TempDir dir;
    const TinyHooks hooks(10);
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    (void)estimator.train(for_steps(1));
    const auto resident_bytes = [] {
      std::ifstream file("/proc/self/statm");
      std::int64_t size = 0;
      std::int64_t pages = 0;
      file >> size >> pages;
      return pages * 4096;
    };
    for (int i = 0; i < 20; ++i) (void)estimator.evaluate();
    const std::int64_t before = resident_bytes();
    for (int i = 0; i < 200; ++i) (void)estimator.evaluate();
    CHECK(resident_bytes() - before < 5'000'000);
  }
#endif
}
