#include "troupe/launcher/run/launch_policy.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// The exit code of one that was told to stop.
bool was_told_to_stop(int exit_code) {
  return std::any_of(kStopSignals.begin(), kStopSignals.end(),
                     [exit_code](int number) { return exit_code == kExitSignal + number; });
}

/// What a worker ends with that died, that was told to stop, or that the servers took for dead.
bool reads_as_lost(const ChildEnd& end) { return is_loss(end) || was_told_to_stop(end.code); }

/// It is over with this one because it was over with another.
bool tells_of_another(const ChildEnd& end) {
  return end.is_echo || (end.signal == 0 && end.code == kExitPeerLost);
}

}  // namespace

bool is_worth_a_restart(int exit_code) {
  return exit_code >= kExitSignal && !was_told_to_stop(exit_code);
}

std::optional<RestartPolicy::Milliseconds> RestartPolicy::after(const PartEnd& end,
                                                                Milliseconds lived) {
  if (!end.failed || !end.can_recover || used_ >= most_ || !is_worth_a_restart(end.exit_code))
    return std::nullopt;
  ++used_;
  if (lived >= kLongestPause) next_pause_ = kFirstPause;
  const Milliseconds pause = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  return pause;
}

std::string task_name(LaunchRole role, int index) {
  const char* const job = role == LaunchRole::worker   ? "worker/"
                          : role == LaunchRole::server ? "ps/"
                                                       : "evaluator/";
  return text(job, index);
}

bool LaunchPolicy::is_lost(LaunchRole role, int index, const ChildEnd& end) const {
  if (role != LaunchRole::worker) return false;
  if (terms_.elastic != nullptr) return has_state_ && is_loss(end);
  return index != 0 && terms_.servers > 0 && reads_as_lost(end);
}

Consequence LaunchPolicy::on_end(LaunchRole role, int index, const ChildEnd& end) {
  if (!end.failed()) {
    if (role == LaunchRole::worker && (index == 0 || terms_.elastic != nullptr)) is_done_ = true;
    return Consequence::none;
  }
  if (role == LaunchRole::evaluator) return Consequence::bystander;
  if (is_lost(role, index, end)) {
    const bool elastic = terms_.elastic != nullptr;
    const int used = elastic ? terms_.elastic->used() + expected_ : restarts_[index];
    const int most = elastic ? terms_.elastic->most() : terms_.restarts;
    if (is_done_ || used >= most) return Consequence::lost;
    ++(elastic ? expected_ : restarts_[index]);
    return Consequence::start_again;
  }
  if (tells_of_another(end)) return Consequence::suspect;
  if (end.signal == 0) return Consequence::stop;
  return terms_.servers > 0 ? Consequence::await_echo : Consequence::stop;
}

bool LaunchPolicy::takes_back() {
  if (terms_.elastic == nullptr || terms_.elastic->used() + expected_ >= terms_.elastic->most())
    return false;
  ++expected_;
  return true;
}

void LaunchPolicy::on_start_again() {
  if (terms_.elastic == nullptr) return;
  --expected_;
  terms_.elastic->count_worker();
}

std::string LaunchPolicy::restart_text(int rank) const {
  if (terms_.elastic != nullptr)
    return text(terms_.elastic->used() + expected_, " of ", terms_.elastic->most());
  const auto found = restarts_.find(rank);
  return text(found == restarts_.end() ? 0 : found->second, " of ", terms_.restarts);
}

std::optional<LaunchRole> LaunchPolicy::overdue(int workers, int servers) const {
  if (!is_done_ || terms_.servers == 0 || (workers > 0) == (servers > 0)) return std::nullopt;
  return workers > 0 ? LaunchRole::worker : LaunchRole::server;
}

int LaunchPolicy::order_of_cause(LaunchRole role, int index, const ChildEnd& end) const {
  if (role == LaunchRole::evaluator) return 4;
  if (is_lost(role, index, end)) return 3;
  if (end.signal != 0) return 0;
  return tells_of_another(end) ? 2 : 1;
}

}  // namespace troupe
