// The behavioural cases of RunConfig that users of Estimator know.
#include "options/run_config.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/test_prelude.h"

using troupe::checkpoint_cadence;
using troupe::ConfigError;
using troupe::RunConfig;

namespace {

using Change = std::function<void(RunConfig&)>;

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
    {"save_summary_steps", [](RunConfig& c) { c.save_summary_steps = -1; }},
    {"save_checkpoints_steps", [](RunConfig& c) { c.save_checkpoints_steps = -1; }},
    {"save_checkpoints_secs", [](RunConfig& c) { c.save_checkpoints_secs = -1; }},
    {"save_checkpoints_secs", [](RunConfig& c) { c.save_checkpoints_secs = std::nan(""); }},
    {"save_checkpoints_secs",
     [](RunConfig& c) { c.save_checkpoints_secs = std::numeric_limits<double>::infinity(); }},
    {"keep_checkpoint_max", [](RunConfig& c) { c.keep_checkpoint_max = -1; }},
    {"keep_checkpoint_every_n_hours", [](RunConfig& c) { c.keep_checkpoint_every_n_hours = 0; }},
    {"keep_checkpoint_every_n_hours",
     [](RunConfig& c) { c.keep_checkpoint_every_n_hours = std::nan(""); }},
    {"log_every", [](RunConfig& c) { c.log_every = -1; }},
    {"save_checkpoints_steps",
     [](RunConfig& c) {
       c.save_checkpoints_steps = 5;
       c.save_checkpoints_secs = 5;
     }},
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("run_config: the defaults") {
    const RunConfig config;
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
  TEST_CASE("run_config: a value beyond its limits is refused by name, made and replaced") {
    for (const BadField& bad : kBadFields) {
      CAPTURE(bad.name);
      RunConfig made;
      bad.change(made);
      const std::string said = message_of([&] { made.validate(); });
      CHECK(contains(said, std::string("RunConfig.") + bad.name));
      CHECK(contains(said, ". Fix: "));
      const RunConfig before;
      CHECK(message_of([&] { (void)before.replace(bad.change); }) == said);
    }
  }

  TEST_CASE("run_config: every field that may be unset, or be 0 for none, is accepted so") {
    RunConfig config;
    config.save_summary_steps = 0;
    config.keep_checkpoint_max = 0;
    config.log_every = 0;
    config.save_checkpoints_steps.reset();
    config.save_checkpoints_secs.reset();
    CHECK_NOTHROW(config.validate());
    CHECK(config.save_summary_steps == 0);
    CHECK_FALSE(config.save_checkpoints_secs.has_value());
  }

  // Fields that do not exist do not compile; what replace() must keep is the original.
  TEST_CASE("run_config: replace changes a copy and leaves the original, also when it fails") {
    static_assert(
        std::is_same_v<decltype(std::declval<const RunConfig&>().replace(Change())), RunConfig>);
    const RunConfig original;
    const RunConfig changed = original.replace([](RunConfig& c) {
      c.model_dir = "/m";
      c.seed = 7;
    });
    CHECK(changed.model_dir == "/m");
    CHECK(changed.seed == 7);
    CHECK(original.model_dir.empty());
    CHECK(original.seed == 1);
    CHECK_THROWS_AS((void)original.replace([](RunConfig& c) { c.log_every = -1; }), ConfigError);
    CHECK(original.log_every == 100);
  }

  TEST_CASE("run_config: setting one cadence of checkpoints clears the other") {
    const RunConfig by_steps =
        RunConfig().replace([](RunConfig& c) { c.save_checkpoints_steps = 100; });
    CHECK(by_steps.save_checkpoints_steps == 100);
    CHECK_FALSE(by_steps.save_checkpoints_secs.has_value());
    const RunConfig by_seconds =
        by_steps.replace([](RunConfig& c) { c.save_checkpoints_secs = 200; });
    CHECK_FALSE(by_seconds.save_checkpoints_steps.has_value());
    CHECK(by_seconds.save_checkpoints_secs == 200);
    const RunConfig back = by_seconds.replace([](RunConfig& c) { c.save_checkpoints_steps = 100; });
    CHECK(back.save_checkpoints_steps == 100);
    CHECK_FALSE(back.save_checkpoints_secs.has_value());
    // What is unset stays unset, and another field leaves the cadence alone.
    const RunConfig neither = back.replace([](RunConfig& c) { c.save_checkpoints_steps.reset(); });
    CHECK_FALSE(neither.save_checkpoints_steps.has_value());
    CHECK_FALSE(neither.save_checkpoints_secs.has_value());
    CHECK(back.replace([](RunConfig& c) { c.seed = 2; }).save_checkpoints_steps == 100);
  }

  TEST_CASE("run_config: checkpoints every 600 seconds unless told, and never for a value of 0") {
    RunConfig config;
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
}
