#include "train/callbacks/stop_at_step.h"

#include "core/error.h"
#include "core/text.h"

namespace troupe {

StopAtStep::StopAtStep(const Limit& limit) : limit_(limit) {
  if (limit.num_steps.has_value() == limit.last_step.has_value()) {
    throw ConfigError(text("StopAtStep was given ", limit.num_steps ? "both" : "neither",
                           " of num_steps and last_step."),
                      "give one: num_steps, how many more, or last_step, the last of the whole "
                      "training.");
  }
  const char* name = limit.num_steps ? "num_steps" : "last_step";
  const std::int64_t value = limit.num_steps ? *limit.num_steps : *limit.last_step;
  if (value < 1) {
    throw ConfigError(text("StopAtStep's ", name, " is ", value, "."),
                      "give a number of at least 1.");
  }
}

void StopAtStep::ready(RunControl& run) {
  last_step_ = limit_.last_step ? *limit_.last_step : run.step() + *limit_.num_steps;
  stop_if_reached(run.step(), run);
}

void StopAtStep::after_step(const StepReport& report, RunControl& run) {
  stop_if_reached(report.step, run);
}

void StopAtStep::stop_if_reached(std::int64_t step, RunControl& run) const {
  if (step >= last_step_) run.request_stop(text("step ", last_step_, " was to be the last"));
}

}  // namespace troupe
