// Which group this process belongs to, and its place in it. The first of these that is set wins:
// flags, TROUPE_* variables and --config; TF_CONFIG; torchrun; Slurm; Open MPI; MPICH; none of
// them: one worker. See docs/cluster.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/log.h"
#include "troupe/core/options/cluster.h"

namespace troupe {

/// Variables by name. Functions take it as an argument, so that a test never depends on
/// the process it runs in; process_environment() is the only place that reads the real one.
using Environment = std::map<std::string, std::string>;

/// The variables of this process. Call it before any other thread runs.
[[nodiscard]] Environment process_environment();

/// "" where it is missing.
[[nodiscard]] std::string variable_in(const Environment& environment, const std::string& name);

inline constexpr int kMaxWorkers = 4096;  // the wire's limit, distributed/net/frame.h

/// A log line that reading the settings requests.
struct ParseNote {
  LogLevel level = LogLevel::info;
  std::string text;
};

namespace detail {

/// A value that was given for a flag. `origin` is how the user wrote the flag ("--epochs",
/// "TROUPE_EPOCHS", "train.json: epochs").
struct GivenText {
  enum class Source { command_line, environment, config_file };  // the strongest first
  std::string value;
  std::string origin;
  Source source = Source::command_line;
};

/// By flag name.
using GivenTexts = std::map<std::string, GivenText>;

/// Null: nothing was given.
[[nodiscard]] const GivenText* given_for(const GivenTexts& given, const char* flag);

}  // namespace detail

/// The group, and what to log about where it came from.
struct ResolvedCluster {
  Cluster cluster;
  std::optional<std::string> model_dir;  // as a TF_CONFIG or --cluster file names it
  std::string model_dir_of;              // the document that does
  std::vector<ParseNote> notes;
};

/// From what was given for --cluster, --task, --rank, --world-size, --chief-address, --servers and
/// --generation, whose values are well-formed. Reads no file but --cluster's.
/// Throws: ConfigError naming the wrong or missing flag, variable or JSON path.
[[nodiscard]] ResolvedCluster resolve_cluster(const detail::GivenTexts& given,
                                              const Environment& environment);

/// "worker/1, rank 1 of 3": this process's place.
[[nodiscard]] std::string place_text(const Cluster& cluster);

}  // namespace troupe
