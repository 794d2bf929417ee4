#include "troupe/train/callbacks/step_timer.h"

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {

void Every::validate(const char* owner) const {
  if (steps.has_value() == seconds.has_value()) {
    throw ConfigError(text(owner, " was given ", steps ? "both" : "neither",
                           " a number of steps and a number of seconds as its period."),
                      "give exactly one of the two.");
  }
  // Written so that NaN is refused, too.
  if (!(steps ? *steps > 0 : seconds->count() > 0)) {
    throw ConfigError(text(owner, " was given a period of ",
                           steps ? text(*steps, " steps.") : text(seconds->count(), " seconds.")),
                      "give a number above 0.");
  }
}

StepTimer::StepTimer(const Every& every, const Clock& clock, const char* owner)
    : every_(every), clock_(clock) {
  every_.validate(owner);
}

bool StepTimer::due(std::int64_t step) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_.steps) return step - *last_step_ >= *every_.steps;
  return Seconds(clock_.now() - last_time_) >= *every_.seconds;
}

StepTimer::Elapsed StepTimer::mark(std::int64_t step) {
  const auto now = clock_.now();
  Elapsed elapsed;
  if (last_step_) elapsed = {Seconds(now - last_time_), step - *last_step_};
  last_step_ = step;
  last_time_ = now;
  return elapsed;
}

void StepTimer::reset() { last_step_.reset(); }

}  // namespace troupe
