// Resumed equals uninterrupted with several replicas: weights, optimisers of all, buffers of each,
// running loss and metrics. Without random layers, which replicas on the CPU do not repeat.
#include <filesystem>

#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/kinds/one_process.h"

namespace mirrored_resume_test {

using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Batch norm, whose buffers differ between replicas, and an optimiser with state.
class NormHooks final : public TinyHooks {
 public:
  explicit NormHooks(bool adam) : TinyHooks(22), adam_(adam) {}

  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 8));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
    torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(norm(in(x)))); }
  };

  [[nodiscard]] troupe::Trainable create_model() const override {
    namespace o = torch::optim;
    auto net = std::make_shared<Net>();
    const auto p = net->parameters();
    if (adam_) return {net, std::make_shared<o::Adam>(p, o::AdamOptions(0.02).amsgrad(true))};
    return {net, std::make_shared<o::SGD>(p, o::SGDOptions(0.02).momentum(0.9))};
  }

 protected:
  [[nodiscard]] at::Tensor output(troupe::Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }

 private:
  bool adam_;
};

/// Tensors that are larger than what a gather of texts carries, in each file of a checkpoint:
/// parameters, momentum, and with compression the rounding errors.
class LargeHooks final : public TinyHooks {
 public:
  static constexpr std::int64_t kValues =
      static_cast<std::int64_t>(troupe::WorkerGroup::kMaxGatherBytes / sizeof(float)) + 1;
  struct Net final : torch::nn::Module {
    torch::Tensor weights = register_parameter("weights", torch::full({kValues}, 0.5F));
    torch::Tensor forward(const torch::Tensor& x) { return x * weights.slice(0, 7, 8); }
  };

  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.02).momentum(0.9))};
  }

 protected:
  [[nodiscard]] at::Tensor output(troupe::Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }
};

/// What a run ends with; compared bit for bit.
struct Ending : TrainingEnd {
  std::string buffers;  // of every replica, before they were made equal
  bool operator==(const Ending& other) const {
    return TrainingEnd::operator==(other) && buffers == other.buffers;
  }
};

troupe::TrainOptions options_in(const TempDir& dir, std::int64_t max_steps) {
  return quiet_options(max_steps, 8, dir.path());
}

/// Every replica's fingerprint at the end of the last step.
class AtTheEnd final : public troupe::PeriodicAction {
 public:
  AtTheEnd(const troupe::TrainState& state, std::string& hashes) : state_(state), hashes_(hashes) {}
  void after_step(const troupe::StepReport&, troupe::RunControl&) override {
    hashes_.clear();
    for (const auto& replica : state_.replicas) hashes_ += troupe::parameter_hash(*replica);
  }
  void after_epoch(std::int64_t, const troupe::Report&, const troupe::Report*) override {}

 private:
  const troupe::TrainState& state_;
  std::string& hashes_;
};

/// A process's whole life: new models, new optimisers, train until the options end it.
Ending train(troupe::Strategy& strategy, const troupe::Hooks& hooks,
             const troupe::TrainOptions& options) {
  auto state = strategy.create_state(hooks, options.seed);
  auto splits = hooks.create_datasets();
  splits.validation = nullptr;  // an evaluation makes buffers equal
  const auto data = strategy.distribute(splits, options.batches());
  Ending ending;
  troupe::Actions actions = {std::make_shared<AtTheEnd>(state, ending.buffers)};
  ending.history = troupe::train(strategy, hooks, state, data, options, {actions, {}});
  ending.hash = troupe::common_parameter_hash(strategy, state);
  strategy.close();
  return ending;
}

Ending train(int replicas, const troupe::Hooks& hooks, const troupe::TrainOptions& options) {
  return train(*troupe::make_mirrored(mirrored_options(replicas)), hooks, options);
}

/// Two workers.
std::vector<Ending> train_group(const TempDir& dir, std::int64_t steps, const troupe::Hooks& hooks,
                                const ChangeOptions& change) {
  return on_workers(
      2, [&](troupe::Strategy& strategy) { return train(strategy, hooks, options_in(dir, steps)); },
      change);
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("mirrored: interrupted at every step equals uninterrupted, bit for bit") {
    // Batches of 8, 8 and 6: no replica ever has a single example, which batch norm refuses.
    for (const bool adam : {false, true}) {
      for (const int replicas : {2, 3}) {
        CAPTURE(adam);
        CAPTURE(replicas);
        check_interruptions(5, [&](const auto& dir, std::int64_t steps, bool) {
          return train(replicas, NormHooks(adam), quiet_options(steps, 8, dir));
        });
      }
    }
  }

  TEST_CASE("central storage: interrupted at every step equals mirrored and uninterrupted") {
    constexpr std::int64_t kSteps = 5;
    const auto train_central = [](const troupe::Hooks& hooks, const troupe::TrainOptions& options) {
      return train(*troupe::make_central_storage(mirrored_options(3)), hooks, options);
    };
    for (const bool adam : {false, true}) {
      CAPTURE(adam);
      const NormHooks hooks(adam);
      const TempDir whole;
      const Ending expected = train(3, hooks, options_in(whole, kSteps));
      for (std::int64_t stop = 1; stop < kSteps; ++stop) {
        CAPTURE(stop);
        const TempDir dir;
        (void)train_central(hooks, options_in(dir, stop));
        CHECK(train_central(hooks, options_in(dir, kSteps)) == expected);
        // And a checkpoint of one is a checkpoint of the other.
        const TempDir other;
        (void)train_central(hooks, options_in(other, stop));
        CHECK(train(3, hooks, options_in(other, kSteps)) == expected);
      }
    }
  }

  TEST_CASE("mirrored: two workers of two replicas resume bit for bit") {
    const TinyHooks hooks(10);
    const auto two_replicas = [](auto& options) { options.replicas = 2; };
    const TempDir whole;
    const auto expected = train_group(whole, 5, hooks, two_replicas);
    const TempDir dir;
    (void)train_group(dir, 2, hooks, two_replicas);
    CHECK((train_group(dir, 5, hooks, two_replicas) == expected));
  }

  TEST_CASE("multi_worker: files and workers' own states of any size are saved and resumed") {
    const LargeHooks hooks;
    const auto compressed = [](auto& options) { options.compress = troupe::Compression::float16; };
    const TempDir whole;
    const auto expected = train_group(whole, 2, hooks, compressed);
    const TempDir dir;
    (void)train_group(dir, 1, hooks, compressed);
    for (const char* file : {"model", "optimizers", "worker-0", "worker-1"}) {
      CAPTURE(file);
      CHECK(
          std::filesystem::file_size(dir / "model.ckpt-1" / (file + std::string(".safetensors"))) >
          troupe::WorkerGroup::kMaxGatherBytes);
    }
    CHECK((train_group(dir, 2, hooks, compressed) == expected));
  }

  TEST_CASE("mirrored: in another layout weights, optimiser and place in the data go on") {
    const TinyHooks hooks(10);
    const TempDir whole;
    const Ending expected = train(2, hooks, options_in(whole, 8));
    const CapturedLog log;
    for (const int before : {1, 2, 4}) {
      for (const int after : {1, 3}) {
        CAPTURE(before);
        CAPTURE(after);
        const TempDir dir;
        (void)train(before, hooks, options_in(dir, 5));
        const Ending ending = train(after, hooks, options_in(dir, 8));
        const troupe::Report& report = *ending.history.train;
        const troupe::Report& whole_report = *expected.history.train;
        CHECK(report.losses[0].second ==
              doctest::Approx(whole_report.losses[0].second).epsilon(1e-5));
        CHECK(report.metrics[0].value ==
              doctest::Approx(whole_report.metrics[0].value).epsilon(1e-5));
      }
    }
    CHECK(log.has("made by 1 worker with 4 replicas, this run has 1 worker with 3 replicas"));
    CHECK(log.count("random streams start anew") == 5);
  }

  TEST_CASE(
      "mirrored: one device reads what one replica of a worker always wrote, and the reverse") {
    const NormHooks hooks(true);
    const TempDir whole;
    const Ending expected = train(1, hooks, options_in(whole, 6));
    const TempDir dir;
    (void)train(1, hooks, options_in(dir, 3));
    CHECK(train(*troupe::make_one_device({}), hooks, options_in(dir, 6)) == expected);
  }
}

}  // namespace mirrored_resume_test
