#include "train/callbacks/stop_at_checkpoint_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace troupe {

StopAtCheckpointStep::StopAtCheckpointStep(std::int64_t last_step, CheckpointStep checkpoint_step,
                                           Wait wait, const Patience& patience)
    : last_step_(last_step),
      checkpoint_step_(std::move(checkpoint_step)),
      wait_(std::move(wait)),
      patience_(patience) {
  if (last_step > 0 && patience.poll > Seconds(0) && patience.total > Seconds(0)) return;
  throw ConfigError(
      text("StopAtCheckpointStep was given last_step ", last_step, ", waits of ",
           patience.poll.count(), " s and ", patience.total.count(), " s for all of them."),
      "give numbers above 0.");
}

void StopAtCheckpointStep::after_step(const StepReport& report, RunControl& run) {
  const auto saved = checkpoint_step_();
  if (saved && *saved >= last_step_) {
    run.request_stop(
        text("the checkpoint of step ", *saved, " is there; ", last_step_, " was to be the last"));
    return;
  }
  if (report.step < last_step_) return;
  const std::string newest = saved ? text("the newest is of step ", *saved) : "there is none";
  if (waited_ >= patience_.total) {
    throw TimeoutError(text("no checkpoint of step ", last_step_, " or later came within ",
                            patience_.total.count(), " s; ", newest, "."),
                       "look at the chief's log: it saves the last step, or says why not.");
  }
  const Seconds pause = std::min(patience_.poll, patience_.total - waited_);
  log_info("waiting ", pause.count(), " s for the checkpoint of step ", last_step_, "; ", newest);
  wait_(pause);
  waited_ += pause;
}

}  // namespace troupe
