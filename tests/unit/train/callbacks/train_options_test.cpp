// The behavioural cases of RunConfig that users of Estimator know. Its replace() is a copy here.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/options/checkpoint_cadence.h"

using troupe::checkpoint_cadence;
using troupe::CheckpointCadence;
using troupe::ConfigError;
using troupe::TrainOptions;

namespace {

using Change = std::function<void(TrainOptions&)>;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

struct BadField {
  const char* name;
  Change change;
};

const std::vector<BadField> kBadFields = {
    {"save_summary_steps", [](TrainOptions& c) { c.save_summary_steps = -1; }},
    {"save_checkpoints_steps", [](TrainOptions& c) { c.save_checkpoints_steps = -1; }},
    {"save_checkpoints_secs", [](TrainOptions& c) { c.save_checkpoints_secs = -1; }},
    {"save_checkpoints_secs", [](TrainOptions& c) { c.save_checkpoints_secs = std::nan(""); }},
    {"save_checkpoints_secs",
     [](TrainOptions& c) { c.save_checkpoints_secs = std::numeric_limits<double>::infinity(); }},
    {"keep_checkpoint_max", [](TrainOptions& c) { c.keep_checkpoint_max = -1; }},
    {"keep_checkpoint_every_n_hours", [](TrainOptions& c) { c.keep_checkpoint_every_n_hours = 0; }},
    {"keep_checkpoint_every_n_hours",
     [](TrainOptions& c) { c.keep_checkpoint_every_n_hours = std::nan(""); }},
    {"log_every", [](TrainOptions& c) { c.log_every = -1; }},
    {"check_weights_every", [](TrainOptions& c) { c.check_weights_every = -1; }},
    {"save_checkpoints_steps",
     [](TrainOptions& c) {
       c.save_checkpoints_steps = 5;
       c.save_checkpoints_secs = 5;
     }},
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("train options: the defaults") {
    const TrainOptions config;
    CHECK(config.model_dir.empty());
    CHECK(config.save_summary_steps == 100);
    CHECK_FALSE(config.save_checkpoints_steps.has_value());
    CHECK_FALSE(config.save_checkpoints_secs.has_value());
    CHECK(config.keep_checkpoint_max == 5);
    CHECK(config.keep_checkpoint_every_n_hours == 10'000);
    CHECK(config.log_every == 100);
    CHECK_NOTHROW(config.validate());
  }

  // A seed of 1.0 and a delay of "5" do not compile here, so that needs no check. The
  // time that workers have to appear is a limit of the group: --start-timeout.
  TEST_CASE("train options: a value beyond its limits is refused by name") {
    for (const BadField& bad : kBadFields) {
      CAPTURE(bad.name);
      TrainOptions made;
      bad.change(made);
      const std::string said = message_of([&] { made.validate(); });
      CHECK(contains(said, std::string("TrainOptions.") + bad.name));
      CHECK(contains(said, ". Fix: "));
    }
  }

  TEST_CASE("train options: every field that may be unset, or be 0 for none, is accepted so") {
    TrainOptions config;
    config.save_summary_steps = 0;
    config.keep_checkpoint_max = 0;
    config.log_every = 0;
    config.save_checkpoints_steps.reset();
    config.save_checkpoints_secs.reset();
    CHECK_NOTHROW(config.validate());
    CHECK(config.save_summary_steps == 0);
    CHECK_FALSE(config.save_checkpoints_secs.has_value());
  }

  TEST_CASE(
      "train options: checkpoints every 600 seconds unless told, and never for a value of 0") {
    TrainOptions config;
    CHECK(checkpoint_cadence(config).seconds == 600);
    CHECK_FALSE(checkpoint_cadence(config).steps.has_value());
    config.save_checkpoints_steps = 10;
    CHECK(checkpoint_cadence(config).steps == 10);
    CHECK_FALSE(checkpoint_cadence(config).seconds.has_value());
    config.save_checkpoints_steps = 0;
    CHECK(checkpoint_cadence(config).never());
    config.save_checkpoints_steps.reset();
    config.save_checkpoints_secs = 0;
    CHECK(checkpoint_cadence(config).never());
    config.save_checkpoints_secs = 2.5;
    CHECK(checkpoint_cadence(config).seconds == 2.5);
    CHECK_FALSE(checkpoint_cadence(config).never());
  }

  TEST_CASE("train options: a checkpoint is due by steps, or by time, or never") {
    const CheckpointCadence by_steps{10, std::nullopt};
    CHECK_FALSE(by_steps.is_due(9, 0, 1e9));
    CHECK(by_steps.is_due(10, 0, 0));
    CHECK_FALSE(by_steps.is_due(10, 10, 1e9));
    const CheckpointCadence by_time{std::nullopt, 2.5};
    CHECK_FALSE(by_time.is_due(1'000'000, 0, 2.4));
    CHECK(by_time.is_due(1, 0, 2.5));
    CHECK_FALSE(CheckpointCadence().is_due(1'000'000, 0, 1e9));
  }

  TEST_CASE("train options: by steps it depends on the step alone when a checkpoint is due") {
    const CheckpointCadence cadence{10, std::nullopt};
    CHECK_FALSE(cadence.is_due(19, 13, 0));  // after one that the loop asked for
    CHECK(cadence.is_due(20, 13, 0));
    CHECK(cadence.is_due(23, 19, 0));  // the steps between were other workers'
    CHECK_FALSE(cadence.is_due(29, 23, 0));
  }
}
