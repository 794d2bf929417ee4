// Training runs through the real command line: started on any number of workers, read back.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_process.h"
#include "tests/support/test_prelude.h"

namespace troupe::testing {

inline const std::string kBuild = TROUPE_BINARY_DIR;
inline constexpr std::chrono::milliseconds kLimit = kProcessLimit;

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// 1300 digits in files, 216 of them for validation, and 100 for the test: evaluating the 3000 that
/// are generated without them takes as long as twenty steps.
inline const Words kFewDigits = {"--data-dir", kBuild + "/tests/few_digits"};
inline const Words kMnist = Words{kBuild + "/examples/mnist"} + kFewDigits;

/// `command` on `workers` workers under `troupe run`, or as it is for one.
inline ProcessResult run_on(int workers, const Words& command) {
  if (workers == 1) return run_process(command, {}, kLimit);
  return run_process(
      Words{kBuild + "/troupe", "run", "--workers", std::to_string(workers), "--no-prefix", "--"} +
          command,
      {}, kLimit);
}

/// The hash of the weights that a training has logged.
inline std::string hash_in(const std::string& log) {
  const std::string word = "parameter_hash ";
  const auto at = log.find(word);
  REQUIRE(at != std::string::npos);
  return log.substr(at + word.size(), 64);
}

/// TF_CONFIG of worker `index` in a cluster of the given ports of this machine, no chief.
inline ProcessOptions tf_config(const std::vector<std::uint16_t>& ports, int index) {
  nlohmann::json addresses = nlohmann::json::array();
  for (const auto port : ports) addresses.push_back("127.0.0.1:" + std::to_string(port));
  const nlohmann::json config = {{"cluster", {{"worker", addresses}}},
                                 {"task", {{"type", "worker"}, {"index", index}}}};
  ProcessOptions options;
  options.set["TF_CONFIG"] = config.dump();
  return options;
}

/// The last line of stdout as JSON.
inline nlohmann::json summary(const ProcessResult& result) {
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::string out = result.out;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return nlohmann::json::parse(out.substr(out.rfind('\n') + 1));
}

/// The "loss" of every logged step.
inline std::vector<double> losses_in(const std::string& path) {
  std::vector<double> losses;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    if (object.contains("loss")) losses.push_back(object["loss"]);
  }
  return losses;
}

}  // namespace troupe::testing
