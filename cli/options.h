// parse_options: collects all settings of a run (core/options/options.h). For every setting:
// flag > TROUPE_* environment > --config file > the cluster's environment (cluster facts only) >
// default. Defaults live in the options structs alone. See docs/configuration.md.
#pragma once

#include <string>
#include <vector>

#include "troupe/cli/flags.h"
#include "troupe/core/options/options.h"

namespace troupe {

/// How --help introduces the program.
struct ProgramInfo {
  std::string name;                   // empty: the file name of argv[0]
  std::string purpose;                // one sentence; empty: a general one
  std::vector<std::string> examples;  // arguments to copy and paste; empty: four general lines
  /// main() has a loop of its own: it supports --mode train alone, and refuses the others.
  bool train_only = false;
};

/// Options of this process; sets the log's level and this worker's name in it, takes the job's
/// secret (cli/cluster/secret_source.h), and tunes malloc for training (core/heap.h) unless
/// options.tune_malloc is off.
/// --help, --help-all, --version and --print-config print, then leave through an exception that
/// run_main turns into exit code 0.
/// Throws: ConfigError, EnvironmentError. Call it once, inside run_main, before any other thread
/// runs.
[[nodiscard]] Options parse_options(int argc, const char* const* argv,
                                    std::vector<Flag> extra_flags = {}, ProgramInfo program = {});

}  // namespace troupe
