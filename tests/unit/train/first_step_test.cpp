// What a training finds before and in its first steps that no single step could show: data that
// differs, state that is shared, draws of hooks that are called again, shares of one example, and
// where a value is not finite first. tests/programs/kinds/first_step.cpp has what a step shows.
#include <atomic>

#include "tests/support/captured_log.h"
#include "tests/support/caught.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/strategies/server_runs.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/estimator/estimator.h"
#include "troupe/hooks/make_datasets.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/train/loop.h"

namespace first_step_test {

using namespace troupe::testing;  // NOLINT: this file's subject
using troupe::Splits;

namespace {

at::Tensor inputs(std::int64_t count) {
  return torch::arange(count, torch::kFloat32).unsqueeze(1) / 10.0;
}

/// x -> 2 x + 1, with `change` made to the targets.
Splits data_with(const std::function<void(at::Tensor&)>& change, std::int64_t count = 24) {
  const at::Tensor x = inputs(count);
  at::Tensor y = 2.0 * x + 1.0;
  if (change) change(y);
  const auto all = std::make_shared<troupe::TensorDataset>(std::vector<at::Tensor>{x, y});
  return {all, all, nullptr};
}

class DataHooks : public TinyHooks {
 public:
  explicit DataHooks(std::function<void(at::Tensor&)> change, std::int64_t count = 24)
      : change_(std::move(change)), count_(count) {}
  [[nodiscard]] Splits create_datasets() const override { return data_with(change_, count_); }

 private:
  const std::function<void(at::Tensor&)> change_;
  const std::int64_t count_;
};

troupe::TrainOptions short_run(const std::string& model_dir = "", std::int64_t steps = 6) {
  auto options = quiet_options(steps, 8, model_dir);
  if (!model_dir.empty()) options.save_checkpoints_steps = 3;
  return options;
}

/// A whole run on one replica.
void train_alone(const troupe::Hooks& hooks, const troupe::TrainOptions& options) {
  const auto strategy = troupe::make_one_device({});
  auto state = strategy->create_state(hooks, options.seed);
  const auto data = strategy->distribute(hooks, options.batches());
  (void)troupe::train(*strategy, hooks, state, data, options);
}

/// What the workers of a group end with.
RankErrors train_workers(int workers, const troupe::Hooks& hooks,
                         const troupe::TrainOptions& options,
                         const std::function<Splits(int rank)>& data_of) {
  return try_workers(workers, [&](int rank, troupe::Strategy& strategy) {
    auto state = strategy.create_state(hooks, options.seed);
    const auto data = strategy.distribute(data_of(rank), options.batches());
    (void)troupe::train(strategy, hooks, state, data, options);
    strategy.close();
  });
}

/// One module, made once.
class SharedModule final : public TinyHooks {
 public:
  [[nodiscard]] troupe::Trainable create_model() const override {
    return {line_.ptr(), std::make_shared<torch::optim::SGD>(line_->parameters(), 0.01)};
  }

 private:
  torch::nn::Linear line_{1, 1};
};

/// A teacher that all replicas may share, since nothing changes it.
class SharedTeacher final : public TinyHooks {
 public:
  [[nodiscard]] troupe::Trainable create_model() const override {
    return TinyHooks::create_model().add_frozen("teacher", teacher_.ptr());
  }

 private:
  torch::nn::Linear teacher_{1, 1};
};

/// The split is drawn from LibTorch's generator, as in tutorials, or from a counter.
class DrawnSplit final : public TinyHooks {
 public:
  enum class From { generator, nowhere };
  explicit DrawnSplit(From from) : from_(from) {}
  [[nodiscard]] Splits create_datasets() const override {
    at::Tensor order = torch::randperm(40);
    if (from_ == From::nowhere) order = (torch::arange(40) + 7 * ++calls_) % 40;
    const at::Tensor x = inputs(40).index_select(0, order);
    const auto part = [&](std::int64_t begin, std::int64_t count) {
      const at::Tensor own = x.narrow(0, begin, count);
      return std::make_shared<troupe::TensorDataset>(std::vector<at::Tensor>{own, 2.0 * own + 1.0});
    };
    return {part(0, 32), part(32, 8), nullptr};
  }

 private:
  const From from_;
  mutable std::atomic<std::int64_t> calls_{0};
};

/// Its data sets number their classes by what they have, as folders of pictures do.
class OtherClasses final : public TinyHooks {
 public:
  class Labelled final : public troupe::Dataset {
   public:
    explicit Labelled(std::vector<std::string> classes) : classes_(std::move(classes)) {}
    [[nodiscard]] std::int64_t size() const override { return 24; }
    [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
      const at::Tensor x = indices.to(torch::kFloat32).unsqueeze(1);
      return {x, 2.0 * x};
    }
    [[nodiscard]] std::vector<std::string> classes() const override {
      if (classes_.front() == "none") throw std::out_of_range("no list of classes");
      return classes_;
    }

   private:
    const std::vector<std::string> classes_;
  };
  explicit OtherClasses(std::string other = "dog") : other_(std::move(other)) {}
  [[nodiscard]] Splits create_datasets() const override {
    return {std::make_shared<Labelled>(std::vector<std::string>{"cat", "dog"}),
            std::make_shared<Labelled>(std::vector<std::string>{other_}), nullptr};
  }

 private:
  const std::string other_;
};

at::Tensor validation_of(const troupe::Hooks& hooks, std::uint64_t seed) {
  const Splits splits = troupe::detail::make_datasets(hooks, seed);
  return splits.validation->get(torch::arange(8))[0];
}

class Normed final : public DataHooks {
 public:
  explicit Normed(std::int64_t count) : DataHooks(nullptr, count) {}
  struct Net final : torch::nn::Module {
    torch::nn::Linear in{register_module("in", torch::nn::Linear(1, 4))};
    torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(4))};
    torch::nn::Linear out{register_module("out", torch::nn::Linear(4, 1))};
    at::Tensor forward(const at::Tensor& x) { return out(norm(in(x))); }
  };
  [[nodiscard]] troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = validation_step(replica, batch).losses.front().second;
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto [x, y] = batch.unpack<2>();
    replica.metric("absolute_error").update(x);
    return replica.global_mean(replica.loss("squared_error")(replica.model<Net>().forward(x), y));
  }
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("first step: modules that hooks made once are refused where two replicas have them") {
    const SharedModule hooks;
    train_alone(hooks, short_run());  // one alone, and the one before it is gone
    CHECK_THROWS_WITH_AS((void)troupe::make_mirrored(mirrored_options(2))->create_state(hooks, 1),
                         doctest::Contains("with the memory of \"weight\" of another replica"),
                         troupe::ConfigError);
    // Training and evaluation at once, as in train_and_evaluate.
    const TempDir dir;
    troupe::EstimatorOptions options;
    options.train = short_run(dir.path().string());
    troupe::Estimator estimator(hooks, options);
    const auto strategy = troupe::make_one_device({});
    const auto state = strategy->create_state(hooks, 1);
    CHECK_THROWS_WITH_AS((void)estimator.evaluate(), doctest::Contains("of another replica"),
                         troupe::ConfigError);
    // What nobody changes may be shared.
    const SharedTeacher teacher;
    CHECK_NOTHROW((void)troupe::make_mirrored(mirrored_options(2))->create_state(teacher, 1));
  }

  TEST_CASE("first step: a split that is drawn in create_datasets is the same at every call") {
    const DrawnSplit hooks(DrawnSplit::From::generator);
    torch::manual_seed(5);
    const at::Tensor drawn = torch::rand(3);
    torch::manual_seed(5);
    const at::Tensor first = validation_of(hooks, 1);
    CHECK(torch::rand(3).equal(drawn));  // training's draws are left alone
    CHECK(validation_of(hooks, 1).equal(first));
    CHECK_FALSE(validation_of(hooks, 2).equal(first));
  }

  TEST_CASE("first step: an evaluation of other data than the training's is refused") {
    for (const auto from : {DrawnSplit::From::generator, DrawnSplit::From::nowhere}) {
      const DrawnSplit hooks(from);
      const TempDir dir;
      troupe::EstimatorOptions options;
      options.train = short_run(dir.path().string());
      train_alone(hooks, options.train);
      troupe::Estimator evaluator(hooks, options);  // calls create_datasets again
      troupe::EvaluateCall call;
      CHECK_NOTHROW((void)evaluator.evaluate(call));  // of whatever there is, by --mode evaluate
      call.is_trainings_data = true;
      if (from == DrawnSplit::From::generator) {
        CHECK_NOTHROW((void)evaluator.evaluate(call));
      } else {
        CHECK_THROWS_WITH_AS((void)evaluator.evaluate(call),
                             doctest::Contains("other data than the training: field 0 of "
                                               "validation example "),
                             troupe::ConfigError);
      }
    }
  }

  TEST_CASE("first step: data sets of other classes are refused, whoever makes them") {
    const OtherClasses hooks;
    const auto refused = doctest::Contains("a label would mean two things");
    CHECK_THROWS_WITH_AS(train_alone(hooks, short_run()), refused, troupe::ConfigError);
    const auto strategy = troupe::make_one_device({});
    CHECK_THROWS_WITH_AS((void)strategy->distribute(hooks.create_datasets(), {}), refused,
                         troupe::ConfigError);  // beside the hooks
    troupe::EstimatorOptions options;
    options.train = short_run();
    troupe::Estimator evaluator(hooks, options);
    CHECK_THROWS_WITH_AS((void)evaluator.evaluate(troupe::EvaluateCall()), refused,
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS(train_alone(OtherClasses("none"), short_run()),
                         doctest::Contains("create_datasets failed: no list of classes"),
                         troupe::HookError);
  }

  TEST_CASE("first step: workers with other labels, or other rows, are refused by name") {
    const TinyHooks hooks;
    for (const bool rows : {false, true}) {
      CAPTURE(rows);
      const auto data_of = [&](int rank) {
        return data_with([&](at::Tensor& y) {
          if (rank == 1) y = rows ? y.flip(0) : y + 1;
        });
      };
      const auto errors = train_workers(2, hooks, short_run(), data_of);
      for (const auto& error : errors) {
        CHECK(has(message_of(error),
                  "rank 1 has other data than the chief: field 1 of training "
                  "example "));
      }
    }
    CHECK(
        message_of(train_workers(2, hooks, short_run(), [](int) { return data_with(nullptr); })[0])
            .empty());
  }

  TEST_CASE("first step: workers beside parameter servers compare their data, too") {
    const TinyHooks hooks;
    for (const char* const what : {"nothing", "labels", "size"}) {
      CAPTURE(what);
      const auto errors =
          try_job(synchronous(2, 1), hooks, [&](int rank, troupe::Strategy& strategy) {
            auto state = strategy.create_state(hooks, 1);
            const bool differs = rank == 1;
            const std::string how = what;
            const Splits splits = data_with(
                [&](at::Tensor& y) {
                  if (differs && how == "labels") y = y + 1;
                },
                differs && how == "size" ? 32 : 24);
            const auto data = strategy.distribute(splits, short_run().batches());
            (void)troupe::train(strategy, hooks, state, data, short_run());
            strategy.close();
          });
      if (std::string(what) == "nothing") {
        for (const auto& error : errors) CHECK(message_of(error).empty());
        continue;
      }
      CHECK(has(message_of(errors[1]), "worker/1 has other data than the chief: "));
      CHECK(has(message_of(errors[1]), what == std::string("size")
                                           ? "number of training examples is 32, the chief's is 24"
                                           : "field 1 of training example "));
      CHECK(has(message_of(errors[0]), "worker/1 has other data than the chief: "));
    }
  }

  TEST_CASE("first step: data that was replaced between a stop and a resume is told of") {
    const TempDir dir;
    const std::string folder = dir.path().string();
    train_alone(DataHooks(nullptr), short_run(folder, 3));
    const auto resumed = [&](const std::function<void(at::Tensor&)>& change, std::int64_t steps) {
      const CapturedLog log;
      train_alone(DataHooks(change), short_run(folder, steps));
      return log.count("the checkpoint was made with other data: field 1 of training example ");
    };
    CHECK(resumed(nullptr, 4) == 0);
    CHECK(resumed([](at::Tensor& y) { y = y * 3; }, 5) == 1);
    CHECK(resumed([](at::Tensor& y) { y = y * 3; }, 6) == 0);  // by now it is its data
  }

  TEST_CASE("first step: what is not finite is named where it is first") {
    // Example 13 is in the share of worker 1 in the first step of two.
    const auto spoil = [](at::Tensor& y) { y[13][0] = std::nan(""); };
    auto options = short_run();
    options.batch_size = 24;
    const auto sequential_data = [&](int) {
      Splits splits = data_with(spoil);
      splits.validation = nullptr;
      splits.sampler = troupe::sequential();
      return splits;
    };
    const auto errors = train_workers(2, TinyHooks(), options, sequential_data);
    for (const auto& error : errors) {
      const std::string message = message_of(error);
      CAPTURE(message);
      CHECK(has(message, "in step 1 worker 1: field 1 of training examples 13 is not finite: "));
      CHECK(has(message, "clean the data"));
    }
    class Dividing final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const double divisor = replica.progress().step == 2 ? 0 : 1;
        const auto loss = forward(replica, batch) / divisor;
        replica.apply_gradients(loss);
        return loss;
      }
    };
    CHECK_THROWS_WITH_AS(train_alone(Dividing(), short_run()),
                         doctest::Contains("in step 3 the loss for optimizer \"optimizer\" is inf, "
                                           "of a batch that is finite: the gradient of parameter"),
                         troupe::NonFiniteError);
    class Rooted final : public TinyHooks {  // the root's slope at 0
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = (forward(replica, batch) * 0).sqrt();
        replica.apply_gradients(replica.local_loss(loss));
        return replica.local_loss(loss);
      }
    };
    CHECK_THROWS_WITH_AS(train_alone(Rooted(), short_run()),
                         doctest::Contains("in step 1 the gradient of parameter \"weight\""),
                         troupe::NonFiniteError);
  }

  TEST_CASE("first step: a share of one example beside batch norm is named before it comes") {
    const Normed hooks(25);  // batches of 8: the last one has one example
    const CapturedLog log;
    auto options = short_run();
    CHECK_THROWS_WITH_AS(train_alone(hooks, options),
                         doctest::Contains("batch norm cannot normalise one example: leave a short "
                                           "last batch out with --drop-last"),
                         troupe::HookError);
    CHECK(log.count("the smallest share of a step has 1 example, and \"model.norm\" (batch norm) "
                    "normalises over it") == 1);
    options.drop_last = true;
    CHECK_NOTHROW(train_alone(hooks, options));
    CHECK_NOTHROW(train_alone(Normed(26), short_run()));
    CHECK(log.count("the smallest share") == 1);
    // Two replicas divide 26 = 3 x 8 + 2 so that one of them has one.
    CHECK_THROWS_AS(
        [&] {
          const auto strategy = troupe::make_mirrored(mirrored_options(2));
          const Normed two(26);
          auto state = strategy->create_state(two, 1);
          const auto data = strategy->distribute(two, short_run().batches());
          (void)troupe::train(*strategy, two, state, data, short_run());
        }(),
        troupe::HookError);
    CHECK(log.count("the smallest share of a step has 1 example") == 2);
    options.batch_size = 30;
    CHECK_THROWS_WITH_AS(train_alone(hooks, options),
                         doctest::Contains("--drop-last leaves a short batch out"),
                         troupe::ConfigError);
  }
}

}  // namespace first_step_test
