#include "troupe/launcher/run/launch_restarts.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/stop_signal.h"

namespace troupe {

bool is_worth_a_restart(int exit_code) {
  const bool told_to_stop =
      std::any_of(kStopSignals.begin(), kStopSignals.end(),
                  [exit_code](int number) { return exit_code == kExitSignal + number; });
  return exit_code >= kExitSignal && !told_to_stop;
}

std::optional<RestartPolicy::Milliseconds> RestartPolicy::after(const GroupEnd& end,
                                                                Milliseconds lived) {
  if (!end.failed || !end.can_recover || used_ >= most_ || !is_worth_a_restart(end.exit_code))
    return std::nullopt;
  ++used_;
  if (lived >= kLongestPause) next_pause_ = kFirstPause;
  const Milliseconds pause = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  return pause;
}

}  // namespace troupe
