// The options that a help text lists, for the shells' completions: what a user is shown is what a
// shell completes.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct HelpOption {
  std::string name;  // "--workers"
  bool has_value = false;
  std::string words;  // of its line, without a full stop; may be empty
};

/// From lines such as "  --workers N     how many"; an option that stands twice counts once.
[[nodiscard]] std::vector<HelpOption> help_options(const std::string& help);

}  // namespace troupe
