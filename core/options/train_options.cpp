#include "troupe/core/options/train_options.h"

#include <cmath>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

template <class Number>
[[noreturn]] void refuse(const char* field, Number value, const char* fix) {
  throw ConfigError(text("TrainOptions.", field, " is ", value, "."), fix);
}

void check_not_negative(const char* field, std::int64_t value) {
  if (value < 0) refuse(field, value, "give a whole number of at least 0.");
}

}  // namespace

void TrainOptions::validate() const {
  check_not_negative("save_summary_steps", save_summary_steps);
  check_not_negative("save_histogram_steps", save_histogram_steps);
  check_not_negative("save_checkpoints_steps", save_checkpoints_steps.value_or(0));
  const double seconds = save_checkpoints_secs.value_or(0);
  if (!std::isfinite(seconds) || seconds < 0) {
    refuse("save_checkpoints_secs", seconds, "give a finite number of at least 0.");
  }
  if (save_checkpoints_steps && save_checkpoints_secs) {
    throw ConfigError(
        "TrainOptions.save_checkpoints_steps and TrainOptions.save_checkpoints_secs are both set.",
        "set one of the two.");
  }
  check_not_negative("keep_checkpoint_max", keep_checkpoint_max);
  if (!std::isfinite(keep_checkpoint_every_n_hours) || keep_checkpoint_every_n_hours <= 0) {
    refuse("keep_checkpoint_every_n_hours", keep_checkpoint_every_n_hours,
           "give a finite number greater than 0.");
  }
  check_not_negative("log_every", log_every);
  if (status_port && model_dir.empty()) {
    throw ConfigError("TrainOptions.status_port is set without TrainOptions.model_dir.",
                      "set model_dir: the live page shows what training writes there.");
  }
  check_not_negative("profile_steps", profile_steps);
  check_not_negative("check_weights_every", check_weights_every);
}

}  // namespace troupe
