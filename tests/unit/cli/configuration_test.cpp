#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/cli/parsing.h"
#include "troupe/cli/command_line.h"
#include "troupe/cli/flags_builtin.h"

namespace configuration_test {

using troupe::testing::contains;
using troupe::testing::parsed;
using troupe::testing::refusal;
using troupe::testing::write_file;

namespace {

/// The words of the line of --print-config that begins with `name`.
std::vector<std::string> config_line(const std::vector<std::string>& arguments,
                                     const troupe::Environment& environment,
                                     const std::string& name) {
  std::vector<std::string> words = arguments;
  words.emplace_back("--print-config");
  const troupe::Outcome outcome =
      troupe::parse_command_line(words, environment, troupe::testing::all_flags());
  REQUIRE_FALSE(outcome.options.has_value());
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::vector<std::string> found;
    for (std::string part; parts >> part;) found.push_back(part);
    if (!found.empty() && found[0] == name) return found;
  }
  return {};
}

using Line = std::vector<std::string>;

}  // namespace

TEST_SUITE("cli") {
  TEST_CASE("configuration: flag beats variable beats file beats default") {
    const troupe::testing::TempDir folder;
    const std::string file = write_file(folder / "c.json", "{\"epochs\": 2, \"seed\": 2}");
    CHECK_FALSE(parsed({}).train.epochs.has_value());
    CHECK(parsed({"--config", file}).train.epochs == 2);
    CHECK(parsed({"--config", file}, {{"TROUPE_EPOCHS", "3"}}).train.epochs == 3);
    const troupe::Options all =
        parsed({"--config", file, "--epochs", "4"}, {{"TROUPE_EPOCHS", "3"}});
    CHECK(all.train.epochs == 4);
    CHECK(all.train.seed == 2);
  }

  TEST_CASE("configuration: the file can be named by TROUPE_CONFIG") {
    const troupe::testing::TempDir folder;
    const std::string file = write_file(folder / "c.json", "{\"batch_size\": 7}");
    CHECK(parsed({}, {{"TROUPE_CONFIG", file}}).train.batch_size == 7);
    CHECK(contains(refusal({}, {{"TROUPE_CONFIG", "no/such"}}), "TROUPE_CONFIG no/such"));
  }

  TEST_CASE("configuration: --print-config names the origin of every value") {
    const troupe::testing::TempDir folder;
    const std::string file = write_file(folder / "c.json", "{\"momentum\": 0.5}");
    const std::vector<std::string> line = {"--config", file, "--learning_rate", "0.1",
                                           "--no-progress"};
    const troupe::Environment environment = {{"TROUPE_SEED", "9"}};
    CHECK(config_line(line, environment, "learning-rate") ==
          Line{"learning-rate", "0.1", "--learning_rate"});
    CHECK(config_line(line, environment, "progress") == Line{"progress", "false", "--no-progress"});
    CHECK(config_line(line, environment, "seed") == Line{"seed", "9", "TROUPE_SEED"});
    CHECK(config_line(line, environment, "momentum") ==
          Line{"momentum", "0.5", file + ":", "momentum"});
    CHECK(config_line(line, environment, "batch-size") == Line{"batch-size", "64", "default"});
    CHECK(config_line(line, environment, "max-steps") == Line{"max-steps", "-", "default"});
  }

  TEST_CASE("configuration: --print-config shows cluster facts with the source that won") {
    const troupe::Environment torchrun = {
        {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};
    CHECK(config_line({}, torchrun, "rank") == Line{"rank", "1", "torchrun"});
    CHECK(config_line({}, torchrun, "world-size") == Line{"world-size", "3", "torchrun"});
    CHECK(config_line({}, torchrun, "chief-address") ==
          Line{"chief-address", "h:29500", "torchrun"});
    CHECK(config_line({}, {}, "rank") == Line{"rank", "0", "default"});
    const std::vector<std::string> flags = {"--rank", "0", "--world-size", "1"};
    CHECK(config_line(flags, torchrun, "world-size") == Line{"world-size", "1", "--world-size"});
  }

  TEST_CASE("configuration: --print-config has a line for every flag but the general ones") {
    const std::string all =
        troupe::parse_command_line({"--print-config"}, {}, troupe::testing::all_flags()).text;
    troupe::detail::Settings settings;
    const auto flags = troupe::detail::builtin_flags(settings);
    const auto setting = [](const troupe::Flag& flag) {
      return flag.group != "General" && flag.shown != troupe::detail::FlagShown::never;
    };
    CHECK(std::count(all.begin(), all.end(), '\n') ==
          std::count_if(flags.begin(), flags.end(), setting));
    CHECK_FALSE(contains(all, "print-config"));
  }

  TEST_CASE("configuration: variables set switches by 1, 0, true, false") {
    CHECK(parsed({}, {{"TROUPE_JSON_SUMMARY", "1"}}).train.json_summary);
    CHECK(parsed({}, {{"TROUPE_JSON_SUMMARY", "true"}}).train.json_summary);
    CHECK_FALSE(parsed({}, {{"TROUPE_JSON_SUMMARY", "0"}}).train.json_summary);
    CHECK_FALSE(parsed({}, {{"TROUPE_NO_PROGRESS", "1"}}).train.progress);
    CHECK(parsed({}, {{"TROUPE_NO_PROGRESS", "0"}}).train.progress);
    CHECK_FALSE(parsed({}, {{"TROUPE_PROGRESS", "0"}}).train.progress);
  }

  TEST_CASE("configuration: bad variables are refused by name") {
    CHECK(contains(refusal({}, {{"TROUPE_EPOCHS", "x"}}), "TROUPE_EPOCHS (--epochs) is \"x\""));
    CHECK(contains(refusal({}, {{"TROUPE_EPOCHS", ""}}), "TROUPE_EPOCHS is set but empty"));
    CHECK(contains(refusal({}, {{"TROUPE_JSON_SUMMARY", "yes"}}), "TROUPE_JSON_SUMMARY"));
    CHECK(contains(refusal({}, {{"TROUPE_PROGRESS", "1"}, {"TROUPE_NO_PROGRESS", "1"}}), "twice"));
  }

  TEST_CASE("configuration: a variable that nearly names a flag is warned of, and others are not") {
    const auto notes = [](const char* variable) {
      return troupe::parse_command_line({}, {{variable, "1"}}, troupe::testing::all_flags()).notes;
    };
    REQUIRE(notes("TROUPE_BACTH_SIZE").size() == 1);
    CHECK(notes("TROUPE_BACTH_SIZE")[0].level == troupe::LogLevel::warning);
    CHECK(contains(notes("TROUPE_BACTH_SIZE")[0].text, "did you mean --batch-size?"));
    CHECK(notes("TROUPE_SANITIZE_EVERYTHING").empty());
    for (const char* ours :
         {"TROUPE_LISTEN_FD", "TROUPE_ROUNDS_FD", "TROUPE_JOINS", "TROUPE_LOSSES_FD"})
      CHECK(notes(ours).empty());
    CHECK(notes("troupe_epochs").empty());
  }

  TEST_CASE("configuration: what --mode train does not use is warned of, as it was written") {
    const auto notes = [](const std::vector<std::string>& words) {
      return troupe::parse_command_line(words, {{"TROUPE_EXPORTER", "best"}},
                                        troupe::testing::all_flags())
          .notes;
    };
    const auto warned = notes({"--mode", "train", "--eval-steps", "3", "--throttle-secs=1"});
    REQUIRE(warned.size() == 1);
    CHECK(warned[0].level == troupe::LogLevel::warning);
    for (const char* part :
         {"--eval-steps", "--throttle-secs", "TROUPE_EXPORTER", "--mode train "}) {
      CHECK(contains(warned[0].text, part));
    }
    CHECK(notes({"--mode", "train_and_evaluate", "--model-dir", "d", "--eval-steps", "3"}).empty());
    CHECK(notes({"--mode", "evaluate", "--model-dir", "d", "--eval-steps", "3"}).empty());
    CHECK(troupe::parse_command_line({"--epochs", "2"}, {}, troupe::testing::all_flags())
              .notes.empty());
  }

  TEST_CASE("configuration: every kind of value in a file") {
    const troupe::testing::TempDir folder;
    const std::string file =
        write_file(folder / "c.json", R"({"max_steps": 9, "learning-rate": 1, "lr-x": 1})");
    CHECK(contains(refusal({"--config", file}), "c.json: lr-x is not a setting"));
    write_file(folder / "c.json",
               R"({"max_steps": 9, "learning-rate": 1, "data-dir": "d", "no-progress": true,
                   "json_summary": true, "timeout": 0.5, "seed": 18446744073709551615})");
    const troupe::Options options = parsed({"--config", file});
    CHECK(options.train.max_steps == 9);
    CHECK(options.train.learning_rate == 1);
    CHECK(options.data.data_dir == "d");
    CHECK_FALSE(options.train.progress);
    CHECK(options.train.json_summary);
    CHECK(options.train.seed == UINT64_MAX);
    CHECK(options.strategy.group.collective_timeout.count() == 500);
  }

  TEST_CASE("configuration: bad files are refused with the path in them") {
    struct Bad {
      const char* content;
      const char* says;
    };
    const troupe::testing::TempDir folder;
    for (const Bad& bad : std::vector<Bad>{
             {"", "is empty, which is not valid JSON"},
             {"{\"epochs\": 3", "not valid JSON: parse error at line 1"},
             {"[1]", "holds an array"},
             {"3", "holds a number"},
             {"{\"epcohs\": 3}", "c.json: epcohs is not a setting. Fix: did you mean --epochs?"},
             {"{\"train\": {\"epochs\": 3}}", "c.json: train is not a setting"},
             {"{\"epochs\": 3, \"epochs\": 4}", "c.json.epochs appears twice"},
             {"{\"lr\": 3}", "give --learning-rate"},
             {"{\"batch-size\": 3, \"batch_size\": 4}", "a second time"},
             {"{\"epochs\": \"3\"}", "c.json: epochs is a string. Fix: write a number"},
             {"{\"epochs\": null}", "c.json: epochs is null"},
             {"{\"epochs\": 1.5}", "whole number"},
             {"{\"epochs\": 0}", "at least 1"},
             {"{\"epochs\": true}", "c.json: epochs is true or false"},
             {"{\"epochs\": 99999999999999999999}", "whole number"},
             {"{\"learning-rate\": 1e999}", "not valid JSON"},
             {"{\"data-dir\": 3}", "c.json: data-dir is a number. Fix: write a string"},
             {"{\"json-summary\": \"true\"}", "c.json: json-summary is a string"},
             {"{\"json-summary\": 1}", "c.json: json-summary is a number"},
             {"{\"strategy\": \"tpu\"}", "tpu is not in this version"},
             {"{\"config\": \"d.json\"}", "belongs on the command line"},
             {"{\"help\": true}", "belongs on the command line"},
         }) {
      CAPTURE(bad.content);
      const std::string message = refusal({"--config", write_file(folder / "c.json", bad.content)});
      CAPTURE(message);
      CHECK(contains(message, "c.json"));
      CHECK(contains(message, bad.says));
    }
    write_file(folder / "c.json", std::string(2'000'000, ' '));
    CHECK(contains(refusal({"--config", folder / "c.json"}), "has more than 1048576 bytes"));
  }
}

}  // namespace configuration_test
