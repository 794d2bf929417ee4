// The flags of the group "Learning rate and averages".
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/command_line.h"

namespace learning_flags_test {

using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::Words;

TEST_SUITE("cli") {
  TEST_CASE("learning flags: every one reaches its option") {
    const auto train = parsed({"--lr-schedule", "plateau", "--warmup-steps", "5", "--decay-steps",
                               "7", "--decay-factor", "0.25", "--final-factor", "0.125",
                               "--plateau", "error:3", "--ema-decay", "0.999"})
                           .train;
    CHECK(train.schedule.kind == troupe::Schedule::plateau);
    CHECK(train.schedule.warmup_steps == 5);
    CHECK(train.schedule.decay_steps == 7);
    CHECK(train.schedule.decay_factor == 0.25);
    CHECK(train.schedule.final_factor == 0.125);
    CHECK(train.schedule.metric == "error");
    CHECK(train.schedule.patience == 3);
    CHECK(train.ema_decay == 0.999);
    CHECK(parsed({}).train.schedule.kind == troupe::Schedule::constant);
    CHECK(parsed({}).train.ema_decay == 0);
  }

  TEST_CASE("learning flags: a value out of range is refused with its flag") {
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"lr-schedule", "linear"}, {"warmup-steps", "-1"}, {"decay-steps", "0.5"},
        {"decay-factor", "1"},     {"decay-factor", "0"},  {"final-factor", "1.5"},
        {"plateau", ""},           {"plateau", "loss"},    {"plateau", "loss:0"},
        {"plateau", "loss:min:3"}, {"plateau", "loss=3"},  {"ema-decay", "1"},
        {"ema-decay", "-0.1"},     {"ema-decay", "nan"}};
    for (const auto& [flag, value] : wrong) {
      CAPTURE(flag);
      CAPTURE(value);
      CHECK(contains(refusal({"--" + flag + "=" + value}), "--" + flag));
    }
  }

  TEST_CASE("learning flags: those of a schedule that is not asked for are refused") {
    for (const char* given : {"--decay-steps=5", "--decay-factor=0.5", "--final-factor=0.1",
                              "--plateau=error:10", "--plateau=loss:2"}) {
      CAPTURE(given);
      CHECK(contains(refusal({given}), "--lr-schedule is constant"));
    }
    CHECK(parsed({"--warmup-steps", "5"}).train.schedule.warmup_steps == 5);
  }

  TEST_CASE("learning flags: all workers must be told the same") {
    const auto settings = parsed({"--lr-schedule", "cosine"}).strategy.must_match;
    CHECK(settings.at("--lr-schedule") == "cosine");
    for (const char* flag : {"--warmup-steps", "--decay-steps", "--decay-factor", "--final-factor",
                             "--plateau", "--ema-decay"}) {
      CAPTURE(flag);
      CHECK(settings.count(flag) == 1);
    }
  }

  TEST_CASE("learning flags: --help has them in a group of their own") {
    const std::string help =
        troupe::parse_command_line({"--help"}, {}, troupe::testing::all_flags()).text;
    CHECK(contains(help, "Learning rate and averages"));
    CHECK(contains(help, "--lr-schedule"));
    CHECK(contains(help, "--ema-decay"));
  }
}

}  // namespace learning_flags_test
