// Two networks, of which one learns every third step, through the real command line: the same
// losses however many train, in parts too, and the same bits after a resume.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/run_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "tests/support/training_runs.h"

namespace fs = std::filesystem;
using nlohmann::json;
using troupe::testing::kBuild;
using troupe::testing::kLimit;
using troupe::testing::run_on;
using troupe::testing::run_process;
using troupe::testing::summary;
using troupe::testing::TempDir;
using troupe::testing::Words;
using troupe::testing::operator+;

namespace {

/// A table as make_decisions.py writes them, without noise.
std::string write_decisions(const TempDir& dir, int rows) {
  const std::string path = (dir.path() / "decisions.csv").string();
  std::ofstream file(path);
  file << "warmth,noise,action,reward\n";
  std::uint32_t draw = 7;
  const auto next = [&] {
    draw = draw * 1664525 + 1013904223;
    return static_cast<double>(draw >> 8) / (1 << 23) - 1;
  };
  for (int i = 0; i < rows; ++i) {
    const double warmth = next();
    const double noise = next();
    const char* const actions[] = {"stay", "left", "right"};
    const double worths[] = {warmth - noise, noise, warmth / 2};
    file << warmth << ',' << noise << ',' << actions[i % 3] << ',' << worths[i % 3] << '\n';
  }
  return path;
}

Words actor_critic(const std::string& csv, int max_steps) {
  return {kBuild + "/examples/actor_critic",
          "--json-summary",
          "--csv",
          csv,
          "--batch-size",
          "50",
          "--max-steps",
          std::to_string(max_steps)};
}

Words with_servers(int workers) {
  return {kBuild + "/troupe", "run", "--workers", std::to_string(workers), "--ps", "2",
          "--no-prefix",      "--"};
}

void check_losses(const json& result, const json& expected) {
  for (const char* loss : {"actor", "critic"}) {
    CHECK(result["test"][loss].get<double>() ==
          doctest::Approx(expected["test"][loss].get<double>()).epsilon(1e-6));
  }
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("examples: actor_critic has the same losses however many train it") {
    const TempDir dir;
    const std::string csv =
        write_decisions(dir, 600);  // 540 of them in batches of 50, the last of 40
    const Words command = actor_critic(csv, 25);
    const json alone = summary(run_on(1, command));
    CHECK(alone["global_step"] == 25);
    check_losses(summary(run_on(2, command)), alone);
    check_losses(summary(run_on(3, command + Words{"--accumulate", "2"})), alone);
    check_losses(summary(run_on(1, command + Words{"--devices", "cpu:0-1"})), alone);
    check_losses(summary(run_on(1, command + Words{"--accumulate", "3"})), alone);
    check_losses(summary(run_on(2, command + Words{"--virtual-replicas", "4"})), alone);
    const Words synchronous{"--strategy", "parameter-server", "--staleness-bound", "0"};
    check_losses(summary(run_process(with_servers(2) + command + synchronous, {}, kLimit)), alone);
    // And not those of an actor that learns in every step.
    const json eager = summary(run_on(1, command + Words{"--actor-every", "1"}));
    CHECK(eager["test"]["actor"] != alone["test"]["actor"]);
    CHECK(eager["test"]["critic"] == alone["test"]["critic"]);
  }

  TEST_CASE(
      "examples: actor_critic learns, and resumes bit for bit between two steps of the actor") {
    const TempDir dir;
    const std::string csv = write_decisions(dir, 600);
    const auto in = [&](const char* name) {
      return Words{"--model-dir", (dir.path() / name).string(), "--accumulate", "2"};
    };
    const json begun = summary(run_on(1, actor_critic(csv, 1)));
    const json whole = summary(run_on(1, actor_critic(csv, 200) + in("whole")));
    CHECK(whole["test"]["worth"].get<double>() > begun["test"]["worth"].get<double>() + 0.1);
    (void)summary(run_on(1, actor_critic(csv, 95) + in("halves")));
    const json resumed = summary(run_on(1, actor_critic(csv, 200) + in("halves")));
    CHECK(resumed["parameter_hash"] == whole["parameter_hash"]);
    const json workers = summary(run_on(2, actor_critic(csv, 40) + in("workers")));
    (void)summary(run_on(2, actor_critic(csv, 20) + in("stopped")));
    const json again = summary(run_on(2, actor_critic(csv, 40) + in("stopped")));
    CHECK(again["parameter_hash"] == workers["parameter_hash"]);
  }
}
