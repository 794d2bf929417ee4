#include "troupe/cli/help.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/command_line.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/core/clock.h"
#include "troupe/core/version.h"

namespace help_test {

using troupe::testing::contains;

namespace {

std::string printed(const std::vector<std::string>& arguments,
                    std::vector<troupe::Flag> extra = {}) {
  const troupe::Outcome outcome = troupe::parse_command_line(
      arguments, {}, troupe::testing::all_flags(std::move(extra)), {"my_training", "", {}});
  REQUIRE_FALSE(outcome.options.has_value());
  return outcome.text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The explanation of one flag, its lines joined.
std::string entry(const std::string& help, const std::string& name) {
  std::string found;
  bool inside = false;
  for (const std::string& line : lines_of(help)) {
    const bool head = line.compare(0, 4, "  --") == 0;
    if (head || line.empty()) {
      inside = head && (line + " ").compare(2, name.size() + 3, "--" + name + " ") == 0;
    }
    if (inside) found += line + " ";
  }
  return found;
}

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("help: at most 80 columns, with a program's own long explanations, too") {
    std::int64_t units = 32;
    const auto extra = [&] {
      return std::vector<troupe::Flag>{troupe::flag(
          "number-of-hidden-units-of-the-first-layer", &units,
          "units of the hidden layer, explained at such a length that it takes several lines of "
          "the terminal to say it all")};
    };
    for (const char* flag : {"--help", "--help-all"}) {
      for (const std::string& line : lines_of(printed({flag}, extra()))) {
        CAPTURE(line);
        CHECK(line.size() <= 80);
        CHECK((line.empty() || line.back() != ' '));
      }
    }
  }

  TEST_CASE("help: usage first, four examples last, groups of at most ten flags") {
    const std::vector<std::string> lines = lines_of(printed({"--help"}));
    CHECK(lines.front() == "Usage: my_training [flags] [-- arguments of the program]");
    REQUIRE(lines.size() > 5);
    CHECK(lines[lines.size() - 5] == "Examples:");
    for (std::size_t i = lines.size() - 4; i < lines.size(); ++i) {
      CHECK(contains(lines[i], "my_training --"));
    }
    for (const char* flag : {"--help", "--help-all"}) {
      int flags = 0;
      for (const std::string& line : lines_of(printed({flag}))) {
        if (line.empty()) flags = 0;
        if (line.compare(0, 4, "  --") == 0) ++flags;
        CHECK(flags <= 10);
      }
    }
  }

  TEST_CASE("help: what the program is to do comes first, its rarer details in --help-all") {
    const std::string common = printed({"--help"});
    CHECK(contains(common, ".\n\nMode:\n  --mode MODE"));
    for (const char* rare :
         {"start-delay-secs", "idle-timeout-secs", "throttle-secs", "init-map"}) {
      CAPTURE(rare);
      CHECK(entry(common, rare).empty());
      CHECK_FALSE(entry(printed({"--help-all"}), rare).empty());
    }
  }

  TEST_CASE("help: few flags, and fewer in --help") {
    troupe::detail::Settings settings;
    int common = 0;
    int all = 0;
    for (const troupe::Flag& flag :
         troupe::detail::with_own(troupe::detail::builtin_flags(settings), {})) {
      common += flag.shown == troupe::detail::FlagShown::always ? 1 : 0;
      all += flag.shown == troupe::detail::FlagShown::never ? 0 : 1;
    }
    CHECK(common <= 55);
    CHECK(all <= 81);
  }

  TEST_CASE("help: --help-all names every flag, and --help leaves the limits out") {
    troupe::detail::Settings settings;
    const std::string all = printed({"--help-all"});
    for (const troupe::Flag& flag : troupe::detail::builtin_flags(settings)) {
      CAPTURE(flag.name);
      if (flag.shown == troupe::detail::FlagShown::never) {
        CHECK(entry(all, flag.name).empty());
        continue;
      }
      CHECK_FALSE(entry(all, troupe::detail::shown_name(flag)).empty());
    }
    CHECK(entry(printed({"--help"}), "heartbeat-timeout").empty());
    CHECK_FALSE(entry(printed({"--help"}), "batch-size").empty());
  }

  TEST_CASE("help: defaults in brackets are those of the options structs") {
    const std::string all = printed({"--help-all"});
    const troupe::TrainOptions train;
    const auto shows = [&](const char* name, double value) {
      std::ostringstream text;
      text << "[" << value << "]";
      CAPTURE(name);
      CHECK(contains(entry(all, name), text.str()));
    };
    shows("batch-size", static_cast<double>(train.batch_size));
    shows("learning-rate", train.learning_rate);
    shows("momentum", train.momentum);
    shows("weight-decay", train.weight_decay);
    shows("seed", static_cast<double>(train.seed));
    shows("log-every", static_cast<double>(train.log_every));
    const troupe::GroupOptions group;
    shows("timeout", troupe::Seconds(group.collective_timeout).count());
    shows("start-timeout", troupe::Seconds(group.start_timeout).count());
    shows("heartbeat-timeout", troupe::Seconds(group.heartbeat_timeout).count());
    shows("eval-steps", 100);
    shows("throttle-secs", troupe::EvalOptions().throttle_secs);
    shows("start-delay-secs", troupe::EvalOptions().start_delay_secs);
    shows("save-summary-steps", static_cast<double>(train.save_summary_steps));
    CHECK(contains(entry(all, "exporter"), "[latest]"));
    CHECK(contains(entry(all, "mode"), "[train]"));
    CHECK(contains(entry(all, "on-non-finite"), "[fail]"));
    CHECK(contains(entry(all, "strategy"),
                   std::string("[") + name_of(troupe::StrategyOptions().kind) + "]"));
    CHECK(contains(entry(all, "devices"), "[" + troupe::StrategyOptions().device + "]"));
    CHECK(train.progress == !entry(all, "no-progress").empty());
    CHECK_FALSE(contains(entry(all, "max-steps"), "["));
  }

  TEST_CASE("help: the batch size is said to be the global one") {
    CHECK(contains(entry(printed({"--help"}), "batch-size"), "global batch"));
  }

  TEST_CASE("help: it answers beside errors, and not after --") {
    CHECK(contains(printed({"--bogus", "--help"}), "Usage:"));
    CHECK(contains(printed({"-h"}), "Usage:"));
    CHECK(troupe::parse_command_line({"--", "--help"}, {}, troupe::testing::all_flags())
              .options.has_value());
  }

  TEST_CASE("help: a program's own flags, purpose and examples") {
    bool shuffle = true;
    const troupe::Outcome outcome = troupe::parse_command_line(
        {"--help"}, {}, {troupe::flag("shuffle", &shuffle, "keep the order of the examples")},
        {"digits", "Learns to read digits.", {"--epochs 1"}});
    CHECK(contains(outcome.text, "Learns to read digits."));
    CHECK(contains(outcome.text, "This program:\n  --no-shuffle"));
    CHECK(lines_of(outcome.text).back() == "  digits --epochs 1");
  }

  TEST_CASE("version: Troupe's number first") {
    CHECK(lines_of(printed({"--version"})).front() == std::string("Troupe ") + troupe::kVersion);
    CHECK(contains(printed({"--version"}), "BLAS "));
  }
}

}  // namespace help_test
