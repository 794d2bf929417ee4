// What bench_scale is told, and what it writes.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/scale/network_model.h"
#include "distributed/worker_group.h"

namespace troupe::bench {

struct ScaleOptions {
  std::vector<int> ranks;
  std::vector<std::size_t> sizes;  // bytes
  int rounds = 5;
  std::chrono::milliseconds compute{5};
  std::optional<NetworkShape> network;      // unset: loopback
  std::chrono::nanoseconds per_message{0};  // simulated cost of a message to its sender
  bool two_level = false;                   // simulate only
  SumRoute route = SumRoute::automatic;
  int sum_group = 0;      // of the two-level all-reduce; 0: derived from the number of ranks
  std::string json_file;  // empty: none
  std::vector<std::string> arguments;
};

/// --help prints and leaves with 0.  Throws: ConfigError.
[[nodiscard]] ScaleOptions parse_scale_options(int argc, const char* const* argv);

/// Machine, network and command in a few lines.
[[nodiscard]] std::string describe(const ScaleOptions& options);

/// Writes the JSON report, if one is wanted.  Throws: EnvironmentError.
void write_results(const ScaleOptions& options, const nlohmann::ordered_json& results);

}  // namespace troupe::bench
