// Warm start: training that begins with another run's weights instead of fresh ones. A checkpoint
// in the run's own directory takes precedence; the step count always starts at 0.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hooks/hooks.h"

namespace troupe {

struct WarmStart {
  /// A checkpoint <dir>/model.ckpt-<step>, a model directory (its newest), or an export.
  std::string from;
  /// Which tensors: unset: all trained parameters; else every parameter and buffer whose whole name
  /// matches one of these regular expressions.
  std::optional<std::vector<std::string>> variables;
  std::map<std::string, std::string> previous_names;  // this model's name -> the name in `from`
};

/// The same hooks, but create_model returns models with the weights that `warm_start` names.
/// Throws: ConfigError for an empty `from` or a bad expression; create_model then throws
/// CheckpointError for a tensor that is missing or has another shape.
[[nodiscard]] std::shared_ptr<const Hooks> with_warm_start(std::shared_ptr<const Hooks> hooks,
                                                           WarmStart warm_start);

}  // namespace troupe
