#include "estimator/specs.h"

#include "core/error.h"
#include "core/text.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

void check_positive(const std::optional<std::int64_t>& value, const char* name) {
  if (value && *value < 1) {
    throw ConfigError(text(name, " is ", *value, "."), "give a number of at least 1, or none.");
  }
}

void check_not_negative(double value, const char* name) {
  if (!(value >= 0)) {
    throw ConfigError(text(name, " is ", value, "."), "give seconds, 0 or more.");
  }
}

void check_actions(const Actions& actions) {
  for (const auto& action : actions) {
    if (!action) throw ConfigError("an action is null.", "leave it out, or make it.");
  }
}

}  // namespace

void TrainSpec::validate() const {
  check_positive(steps, "steps");
  check_positive(max_steps, "max_steps");
  if (steps && max_steps) {
    throw ConfigError("steps and max_steps are both given.", "keep one of the two.");
  }
  check_actions(companions.actions);
  for (const auto& listener : companions.listeners) {
    if (!listener) throw ConfigError("a saving listener is null.", "leave it out, or make it.");
  }
}

void EvalSpec::validate() const {
  check_positive(steps, "steps");
  check_positive(batch_size, "batch_size");
  if (!name.empty() && !is_file_name(name)) {
    throw ConfigError("the evaluation's name \"" + name + "\" is no file name.",
                      "use letters, digits, '.', '_' and '-'.");
  }
  check_actions(actions);
  check_not_negative(start_delay_secs, "start_delay_secs");
  check_not_negative(throttle_secs, "throttle_secs");
  if (idle_timeout_secs && !(*idle_timeout_secs > 0)) {
    throw ConfigError(text("idle_timeout_secs is ", *idle_timeout_secs, "."),
                      "give more than 0 seconds, or leave it unset to wait for ever.");
  }
  troupe::validate(exporters);
}

}  // namespace troupe
