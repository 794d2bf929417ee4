// NamedValues: what a function of the user's hands over for a log line or as a result.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/text.h"

namespace troupe {

using NamedValues = std::vector<std::pair<std::string, double>>;

/// "loss = 0.25, accuracy = 0.5"
[[nodiscard]] inline std::string to_line(const NamedValues& values) {
  std::string line;
  for (const auto& [name, value] : values) {
    line += text(line.empty() ? "" : ", ", name, " = ", value);
  }
  return line;
}

}  // namespace troupe
