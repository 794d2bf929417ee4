// parse_options: collects all settings of a run (core/options/options.h). For every setting:
// flag > TROUPE_* environment > --config file > the cluster's environment (cluster facts only) >
// default. Defaults live in the options structs alone. See docs/configuration.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/secret_source.h"
#include "troupe/cli/flags.h"
#include "troupe/core/options/options.h"

namespace troupe {

/// How --help introduces the program.
struct ProgramInfo {
  std::string name;                   // empty: the file name of argv[0]
  std::string purpose;                // one sentence; empty: a general one
  std::vector<std::string> examples;  // arguments to copy and paste; empty: four general lines
  /// Which modes main() supports: a program with a custom loop supports --mode train alone, and
  /// refuses the others.
  enum class Modes { all, train_only };
  Modes modes = Modes::all;
};

/// What a command line requests.
struct Outcome {
  std::optional<Options> options;  // unset: print `text` on stdout and exit with 0
  std::string text;
  std::vector<ParseNote> notes;  // parse_options writes them once the log level is known
  SecretSource secret;           // of `options`, not read yet
};

/// All option parsing as a function of its arguments (without argv[0]); reads no file but those
/// named by --config and --cluster.
/// Throws: ConfigError naming the flag, variable or JSON path.
[[nodiscard]] Outcome parse_command_line(const std::vector<std::string>& arguments,
                                         const Environment& environment,
                                         std::vector<Flag> extra_flags = {},
                                         const ProgramInfo& program = {});

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
