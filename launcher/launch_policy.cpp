#include "launcher/launch_policy.h"

#include <algorithm>

#include "core/error.h"
#include "core/stop_signal.h"
#include "core/text.h"

namespace troupe {
namespace {

/// What a worker ends with that died, that was told to stop, or that the servers took for dead.
bool reads_as_lost(const ChildEnd& end) {
  const bool told = std::any_of(kStopSignals.begin(), kStopSignals.end(),
                                [&end](int number) { return end.code == kExitSignal + number; });
  return end.signal != 0 || told || end.code == kExitPeerLost;
}

}  // namespace

std::string task_name(LaunchRole role, int index) {
  const char* const job = role == LaunchRole::worker   ? "worker/"
                          : role == LaunchRole::server ? "ps/"
                          : role == LaunchRole::node   ? "node/"
                                                       : "evaluator/";
  return text(job, index);
}

bool LaunchPolicy::is_dispensable(LaunchRole role, int index) const {
  return role == LaunchRole::worker && index != 0 && terms_.servers > 0;
}

Consequence LaunchPolicy::on_end(LaunchRole role, int index, const ChildEnd& end) {
  if (!end.failed()) {
    if (role == LaunchRole::worker && index == 0) chief_is_done_ = true;
    return Consequence::none;
  }
  if (role == LaunchRole::evaluator) return Consequence::bystander;
  if (is_dispensable(role, index) && reads_as_lost(end)) {
    if (chief_is_done_ || restarts_of(index) >= terms_.restarts) return Consequence::lost;
    ++restarts_[index];
    return Consequence::start_again;
  }
  if (end.signal == 0) {
    return end.code == kExitPeerLost ? Consequence::suspect : Consequence::stop;
  }
  return terms_.servers > 0 ? Consequence::await_echo : Consequence::stop;
}

int LaunchPolicy::restarts_of(int rank) const {
  const auto found = restarts_.find(rank);
  return found == restarts_.end() ? 0 : found->second;
}

Closing LaunchPolicy::closing(int workers, int servers) const {
  if (!chief_is_done_ || terms_.servers == 0) return Closing::unlimited;
  if (workers == 0 && servers > 0) return Closing::servers_overdue;
  if (servers == 0 && workers > 0) return Closing::workers_overdue;
  return Closing::unlimited;
}

int LaunchPolicy::order_of_cause(LaunchRole role, int index, const ChildEnd& end) const {
  if (role == LaunchRole::evaluator) return 4;
  if (is_dispensable(role, index) && reads_as_lost(end)) return 3;
  if (end.signal != 0) return 0;
  return end.code == kExitPeerLost ? 2 : 1;
}

}  // namespace troupe
