// Resumed equals uninterrupted, bit for bit: weights, optimiser, buffers, random streams, position
// in the data, running loss and metrics.
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/unit/strategies/strategy_runs.h"
#include "tests/unit/train/stateful_hooks.h"
#include "troupe/core/failure.h"

namespace resume_test {

using namespace troupe::testing;  // NOLINT: a test

namespace {

troupe::TrainOptions options_in(const std::filesystem::path& dir, std::int64_t max_steps) {
  return quiet_options(max_steps, 4, dir);
}

TrainingEnd train(const troupe::Hooks& hooks, const troupe::TrainOptions& options) {
  return train_alone(*troupe::make_one_device({}), hooks, options);
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("resume: interrupted at every step equals uninterrupted, with every optimiser") {
    // 14 examples in batches of 4: four steps an epoch, the last one short.
    for (const char* optimizer : {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"}) {
      CAPTURE(optimizer);
      check_interruptions(10, [&](const auto& dir, std::int64_t steps, bool) {
        const TrainingEnd end = train(StatefulHooks(optimizer), options_in(dir, steps));
        CHECK(std::filesystem::exists(dir / troupe::text("model.ckpt-", steps)));
        return end;
      });
    }
  }

  TEST_CASE(
      "resume: five steps leave checkpoints 0 and 5, and trained to the end nothing is written") {
    const TempDir dir;
    const TinyHooks hooks(10);
    const TrainingEnd first = train(hooks, options_in(dir.path(), 5));
    CHECK(std::filesystem::exists(dir / "model.ckpt-0"));
    CHECK(std::filesystem::exists(dir / "model.ckpt-5"));
    const auto written = std::filesystem::last_write_time(dir / "model.ckpt-5");
    const TrainingEnd second = train(hooks, options_in(dir.path(), 5));
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
    const TrainingEnd expected = train(TinyHooks(10), options);
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
    const TrainingEnd expected = train(TinyHooks(10), options_in(whole.path(), 9));
    const TempDir dir;
    CHECK_THROWS_WITH_AS((void)train(Terminated(10), options_in(dir.path(), 9)),
                         doctest::Contains("stopped after step 4"), troupe::Stopped);
    CHECK(std::filesystem::exists(dir / "model.ckpt-4"));
    CHECK(train(TinyHooks(10), options_in(dir.path(), 9)) == expected);
  }
}

}  // namespace resume_test
