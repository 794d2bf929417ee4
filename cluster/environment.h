// Environment: variables by name. Functions take it as an argument, so that a test never depends on
// the process it runs in; process_environment() is the only place that reads the real one.
#pragma once

#include <map>
#include <string>

namespace troupe {

using Environment = std::map<std::string, std::string>;

/// The variables of this process. Call it before any other thread runs.
[[nodiscard]] Environment process_environment();

}  // namespace troupe
