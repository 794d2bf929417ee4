// The verbs of the tool: a line each in verbs.cpp is all that its help knows of them.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct Verb {
  const char* name;
  const char* summary;  // a phrase, without a full stop
  std::string (*help)();
  /// `arguments`: what follows the verb. Returns the process's exit code.
  int (*run)(const std::vector<std::string>& arguments);
};

/// In the order of help.
[[nodiscard]] const std::vector<Verb>& verbs();

/// What `troupe help` prints.
[[nodiscard]] std::string tool_help();

/// The tool: carries out `words`, the command line behind the program's name. Returns its exit
/// code. Throws: ConfigError for an unknown verb, and what the verb throws.
[[nodiscard]] int run_tool(const std::vector<std::string>& words);

}  // namespace troupe
