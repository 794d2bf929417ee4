// The flags that every Troupe program has, bound to the structs they fill.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/flags.h"
#include "troupe/cli/options.h"

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
  std::string secret_file;
  std::optional<std::int32_t> secret_descriptor;
  std::string config_file;
  bool print_config = false;
  bool answered = false;  // --help, --help-all and --version, which end parsing before it
};

/// The flags, in the order of --help. `settings` must outlive them.
[[nodiscard]] std::vector<Flag> builtin_flags(Settings& settings);
/// The built-in flags that this program reads, then its own.
/// Throws: ConfigError where it asks for one that is none.
[[nodiscard]] std::vector<Flag> with_own(std::vector<Flag> builtin, std::vector<Flag> own);
/// The fix for a flag that only some programs read; "" for any other name.
[[nodiscard]] std::string unread_flag_hint(const std::string& name);

/// Each appends the flags of a topic, in the order of --help; the options must outlive them.
void add_step_flags(std::vector<Flag>& flags, Options& options);
void add_learning_flags(std::vector<Flag>& flags, TrainOptions& train);
void add_evaluation_flags(std::vector<Flag>& flags, Options& options);
void add_use_flags(std::vector<Flag>& flags, UseOptions& use);
void add_exchange_flags(std::vector<Flag>& flags, StrategyOptions& strategy);
/// `addresses` takes --servers as it is given.
void add_server_flags(std::vector<Flag>& flags, std::string& addresses, ServerOptions& servers);

/// The fix for a flag that belongs to a launcher (--nnodes) rather than to the program; "" for any
/// other name.
[[nodiscard]] std::string launcher_flag_hint(const std::string& name);

}  // namespace troupe::detail
