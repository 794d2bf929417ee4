// parse_command_line: parse_options without its effects.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/secret_source.h"
#include "troupe/cli/options.h"

namespace troupe {

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

}  // namespace troupe
