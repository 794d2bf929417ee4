// What torchrun, Slurm, MPI's launchers and others tell a process through its environment: its
// rank, how many there are, and (not all of them) where rank 0 is found.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/options/cluster.h"

namespace troupe {

/// A process's place as its launcher states it.
struct LauncherPlace {
  int rank = 0;
  int world_size = 1;
  std::optional<Endpoint> chief_address;  // unset: one worker, or the variables do not tell
  std::uint64_t generation = 0;
  int on_this_machine = 0;  // workers, this one among them; 0: the variables do not tell
};

/// A launcher whose variables are known.
struct Launcher {
  const char* name;
  /// Whether its variables are set at all.
  std::function<bool(const Environment&)> present;
  /// Throws: ConfigError naming the variable that is missing or wrong.
  std::function<LauncherPlace(const Environment&)> read;
};

/// All that are known, in the order in which they are asked.
[[nodiscard]] const std::vector<Launcher>& launchers();

/// A port of 15000 to 29999 that follows from a job's name, so that its processes agree on it
/// without talking: below the ports that Linux gives to outgoing connections (from 32768).
[[nodiscard]] std::uint16_t derived_port(const std::string& job);

}  // namespace troupe
