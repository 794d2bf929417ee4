// Resumed equals uninterrupted, bit for bit: weights, optimiser, buffers, random streams, position
// in the data, running loss and metrics.
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/train/stateful_hooks.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/loop.h"

namespace resume_test {

using troupe::testing::StatefulHooks;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;

namespace {

/// What a run ends with; compared bit for bit.
struct Ending {
  std::string hash;
  troupe::LossValues losses;
  double metric = 0;
  bool operator==(const Ending& other) const {
    return hash == other.hash && losses == other.losses && metric == other.metric;
  }
};

troupe::TrainOptions options_in(const std::filesystem::path& dir, std::int64_t max_steps) {
  troupe::TrainOptions options;
  options.model_dir = dir.string();
  options.max_steps = max_steps;
  options.save_checkpoints_steps = 100;
  options.batch_size = 4;
  options.progress = false;
  options.log_every = 0;
  return options;
}

/// A process's whole life: new model, new optimiser, train until the options end it.
Ending train(const troupe::Hooks& hooks, const troupe::TrainOptions& options) {
  const auto strategy = troupe::make_one_device({});
  auto state = strategy->create_state(hooks, options.seed);
  const auto data =
      strategy->distribute(hooks.create_datasets(), {options.batch_size, options.seed});
  const auto history = troupe::train(*strategy, hooks, state, data, options);
  Ending ending{troupe::parameter_hash(*state.replicas[0]), {}, 0};
  if (history.train) {
    ending.losses = history.train->losses;
    ending.metric = history.train->metrics[0].value;
  }
  return ending;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("resume: interrupted at every step equals uninterrupted, with every optimiser") {
    // 14 examples in batches of 4: four steps an epoch, the last one short.
    constexpr std::int64_t kSteps = 10;
    for (const char* optimizer : {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"}) {
      CAPTURE(optimizer);
      const StatefulHooks hooks(optimizer);
      const TempDir whole;
      const Ending expected = train(hooks, options_in(whole.path(), kSteps));
      for (std::int64_t stop = 1; stop < kSteps; ++stop) {
        CAPTURE(stop);
        const TempDir dir;
        (void)train(hooks, options_in(dir.path(), stop));
        CHECK(std::filesystem::exists(dir / troupe::text("model.ckpt-", stop)));
        CHECK(train(hooks, options_in(dir.path(), kSteps)) == expected);
      }
    }
  }

  TEST_CASE(
      "resume: five steps leave checkpoints 0 and 5, and trained to the end nothing is written") {
    const TempDir dir;
    const TinyHooks hooks(10);
    const Ending first = train(hooks, options_in(dir.path(), 5));
    CHECK(std::filesystem::exists(dir / "model.ckpt-0"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-5"));
    const auto written = std::filesystem::last_write_time(dir / "model.ckpt-5");
    const Ending second = train(hooks, options_in(dir.path(), 5));
    CHECK(second.hash == first.hash);
    CHECK(std::filesystem::last_write_time(dir / "model.ckpt-5") == written);
  }

  TEST_CASE("resume: saves every N steps and keeps the newest") {
    const TempDir dir;
    auto options = options_in(dir.path(), 12);
    options.save_checkpoints_steps = 5;
    options.keep_checkpoint_max = 2;
    (void)train(TinyHooks(10), options);
    CHECK_FALSE(std::filesystem::exists(dir / "model.ckpt-5"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-10"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-12"));
  }

  TEST_CASE("resume: a damaged newest checkpoint is passed over") {
    const TempDir dir;
    auto options = options_in(dir.path(), 10);
    options.save_checkpoints_steps = 5;
    const Ending expected = train(TinyHooks(10), options);
    std::filesystem::resize_file(dir / "model.ckpt-10" / "model.safetensors", 20);
    CHECK(train(TinyHooks(10), options).hash == expected.hash);
  }

  TEST_CASE("resume: what does not fit is refused by name") {
    const TempDir dir;
    (void)train(TinyHooks(10), options_in(dir.path(), 3));
    auto options = options_in(dir.path(), 6);
    options.batch_size = 2;
    CHECK_THROWS_WITH_AS((void)train(TinyHooks(10), options), doctest::Contains("--batch-size 4"),
                         troupe::ConfigError);
    options.batch_size = 4;
    CHECK_THROWS_WITH_AS((void)train(TinyHooks(11), options),
                         doctest::Contains("training examples of 10, now it is 11"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)train(StatefulHooks("SGD", 10), options_in(dir.path(), 6)),
                         doctest::Contains("does not fit the model"), troupe::CheckpointError);
    options.resume = troupe::Resume::never;
    CHECK_THROWS_WITH_AS((void)train(TinyHooks(10), options), doctest::Contains("--resume never"),
                         troupe::ConfigError);
    const TempDir empty;
    options = options_in(empty.path(), 6);
    options.resume = troupe::Resume::must;
    CHECK_THROWS_WITH_AS((void)train(TinyHooks(10), options), doctest::Contains("--resume must"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)train(StatefulHooks("Unknown"), options_in(empty.path(), 6)),
                         doctest::Contains("use SGD, Adam"), troupe::ConfigError);
  }

  TEST_CASE("resume: another optimiser than the checkpoint's is refused") {
    const TempDir dir;
    (void)train(StatefulHooks("SGD"), options_in(dir.path(), 3));
    CHECK_THROWS_WITH_AS((void)train(StatefulHooks("Adam"), options_in(dir.path(), 6)),
                         doctest::Contains("\"SGD\", create_model made Adam"),
                         troupe::CheckpointError);
  }

  TEST_CASE("resume: SIGTERM saves and stops, and the next start goes on as if nothing had been") {
    class Terminated final : public troupe::testing::TinyHooks {
     public:
      using TinyHooks::TinyHooks;
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        if (++steps_ == 4) std::raise(SIGTERM);
        return TinyHooks::train_step(replica, batch);
      }

     private:
      mutable int steps_ = 0;
    };
    const TempDir whole;
    const Ending expected = train(TinyHooks(10), options_in(whole.path(), 9));
    const TempDir dir;
    CHECK_THROWS_WITH_AS((void)train(Terminated(10), options_in(dir.path(), 9)),
                         doctest::Contains("stopped after step 4"), troupe::Stopped);
    CHECK(std::filesystem::exists(dir / "model.ckpt-4"));
    CHECK(train(TinyHooks(10), options_in(dir.path(), 9)) == expected);
  }
}

}  // namespace resume_test
