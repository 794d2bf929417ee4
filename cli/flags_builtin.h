// The flags that every Troupe program has, bound to the structs they fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/options.h"
#include "cluster/cluster_spec.h"

namespace troupe::detail {

/// What flags set: the options, and what is only needed until the options are complete.
struct Settings {
  Options options;
  // The cluster as given; resolve_cluster turns it into options.strategy.cluster.
  std::string cluster_file;
  std::string task;
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::string chief_address;
  std::string servers;
  std::string main_address;  // --master-addr and --master-port: --chief-address in two parts
  std::optional<std::int64_t> main_port;
  std::string config_file;
  bool print_config = false;
  bool help = false;
  bool help_all = false;
  bool version = false;
};

/// The flags, in the order of --help. `settings` must outlive them.
[[nodiscard]] std::vector<Flag> builtin_flags(Settings& settings);

/// The fix for a flag that belongs to a launcher (--nnodes) rather than to the program; "" for any
/// other name.
[[nodiscard]] std::string launcher_flag_hint(const std::string& name);

}  // namespace troupe::detail
