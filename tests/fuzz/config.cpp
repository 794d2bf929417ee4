// Options: the file of --config, and the command line.
#include <functional>
#include <string>

#include "tests/fuzz/fuzz.h"
#include "troupe/cli/command_line.h"
#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_reading.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::fuzz::config_target {
namespace {

enum Kind : unsigned char { file, arguments };
constexpr unsigned kKinds = arguments + 1;

/// What a flag shows of its value, it takes in, and shows again.
void check_shown(const detail::GivenTexts& given, const detail::FlagTable& table) {
  detail::GivenTexts shown;
  for (const auto& [name, value] : given) {
    const std::string now = table.find(name)->flag->show();
    if (!now.empty()) shown[name] = {now, value.origin, value.source};
  }
  detail::Settings settings;
  const detail::FlagTable others(detail::builtin_flags(settings));
  detail::assign(shown, others);
  for (const auto& [name, value] : shown) {
    FUZZ_REQUIRE(others.find(name)->flag->show() == value.value);
  }
}

void check_values(const std::function<detail::GivenTexts(const detail::FlagTable&)>& read) {
  detail::Settings settings;
  const detail::FlagTable table(detail::builtin_flags(settings));
  const detail::GivenTexts given = read(table);
  detail::assign(given, table);
  check_shown(given, table);
}

/// The whole of option parsing.
bool parses(const std::vector<std::string>& words) {
  Outcome outcome;
  if (!accepts<ConfigError>(
          [&] { outcome = parse_command_line(words, {}, {flag("learning-rate")}); }))
    return false;
  FUZZ_REQUIRE(outcome.options.has_value() == outcome.text.empty());
  if (!outcome.options) return false;  // --help
  const Cluster& cluster = outcome.options->strategy.cluster;
  FUZZ_REQUIRE(cluster.rank >= 0 && cluster.rank < cluster.world_size());
  outcome.options->train.validate();
  return true;
}

bool run_file(std::string_view input) {
  const MemoryFile config(input);
  const std::string path = config.path();
  if (!parses({"--config", path})) return false;
  check_values([&](const detail::FlagTable& table) {
    return detail::read_config_file(path, "--config", table);
  });
  return true;
}

bool run_arguments(const std::string& input) {
  const std::vector<std::string> words = split(input, '\n');
  if (!parses(words)) return false;
  check_values(
      [&](const detail::FlagTable& table) { return read_command_line(words, table).given; });
  return true;
}

std::string seed(Kind kind, const std::string& content) {
  return std::string(1, static_cast<char>(kind)) + content;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      seed(file, R"({"epochs": 5, "batch-size": 32, "learning_rate": 0.1, "lr-schedule": "cosine",
                         "model-dir": "/tmp/m", "overlap": "on", "no-progress": true, "seed": 7})"),
      seed(file, R"({"mode": "train-and-evaluate", "model-dir": "m", "exporter": "latest,best",
                         "eval-steps": 0, "throttle-secs": 0, "max-steps": 100})"),
      seed(file, R"({"world-size": 2, "rank": 1, "chief-address": "127.0.0.1:2222",
                         "heartbeat-timeout": 2.5, "transport": "tcp", "log-level": "debug"})"),
      seed(arguments, "--batch_size=16\n--max_steps\n10\n--no-tune-malloc\n--\nanything"),
      seed(arguments, "--devices=cpu:0,cpu:1\n--on_non_finite\nstop")};
}

bool run(std::string_view input) {
  if (input.empty()) return false;
  const auto kind = static_cast<unsigned char>(input[0]) % kKinds;
  input.remove_prefix(1);
  return kind == file ? run_file(input) : run_arguments(std::string(input));
}

const Registration registered({"config", seeds, run});

}  // namespace troupe::fuzz::config_target
