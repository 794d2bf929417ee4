#include "train/callbacks/stop_after_seconds.h"

#include "core/error.h"
#include "core/text.h"

namespace troupe {

StopAfterSeconds::StopAfterSeconds(Seconds limit, const Clock& clock)
    : limit_(limit), clock_(clock), start_(clock.now()) {
  if (limit > Seconds(0)) return;  // NaN is refused, too
  throw ConfigError(text("StopAfterSeconds was given ", limit.count(), " seconds."),
                    "give a number above 0.");
}

void StopAfterSeconds::begin() { start_ = clock_.now(); }

void StopAfterSeconds::after_step(const StepReport& /*report*/, RunControl& run) {
  if (clock_.now() - start_ < limit_) return;
  run.request_stop(text("training was to take ", limit_.count(), " seconds"));
}

}  // namespace troupe
