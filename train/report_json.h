// A report as JSON: losses and metrics under their names, metrics' sums beside them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/report.h"

namespace troupe {

/// {"loss": 0.04, "accuracy": 0.98, "correct": 9800, "examples": 10000}. A sum whose name is taken
/// is preceded by its metric's: "top5/correct". Whole numbers are written as such.
[[nodiscard]] nlohmann::ordered_json to_json(const Report& report);

}  // namespace troupe
