// The command line of `troupe run`.
#pragma once

#include <string>
#include <vector>

#include "launcher/launch.h"

namespace troupe {

/// `arguments`: what follows the word "run".
/// Throws: ConfigError naming the option that is missing, unknown or out of range.
[[nodiscard]] LaunchOptions parse_launch_options(const std::vector<std::string>& arguments);

/// What `troupe help run` prints.
[[nodiscard]] std::string launch_help();

}  // namespace troupe
