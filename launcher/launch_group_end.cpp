// How a group ends: processes are stopped, what they left is killed, their output is delivered, and
// the report is written.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "core/deadline.h"
#include "core/error.h"
#include "core/text.h"
#include "launcher/launch_group.h"
#include "launcher/launch_report.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFlushRetry{2};
constexpr milliseconds kDrainLimit{2'000};  // for output of workers that have ended
constexpr milliseconds kKillLimit{10'000};  // for SIGKILL to take effect
constexpr milliseconds kStrayLimit{1'000};

/// What a worker left behind and the kernel gave to us (we are the subreaper).
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::ifstream list(text("/proc/self/task/", getpid(), "/children"));
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

}  // namespace

void LaunchGroup::begin_stop(int signal_number) {
  phase_ = Phase::stopping;
  for (const auto& process : processes_) {
    process->signal(signal_number);
    process->signal(SIGCONT);  // one that was stopped can act on it, too
  }
  phase_timer_.expires_after(options_.grace);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || phase_ != Phase::stopping) return;
    for (const auto& process : processes_)
      if (process->running()) say(text(process->name(), " did not stop in time and is killed."));
    kill_all();
  });
}

void LaunchGroup::kill_all() {
  for (const auto& process : processes_) process->signal(SIGKILL);
  if (killing_) return;
  killing_ = true;
  phase_timer_.expires_after(kKillLimit);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) io_.stop();  // the kernel holds one of them; it dies when it is let go
  });
}

void LaunchGroup::finish_if_all_ended() {
  if (trainers_running() + running(LaunchRole::evaluator) > 0 || reported_) return;
  if (phase_ != Phase::reporting) {
    phase_ = Phase::reporting;
    sweep_strays();
    limit_draining();
  }
  for (const auto& process : processes_)
    if (process->streams_open()) return;
  report();
}

/// A stream that stays open after the sweep is held by a process that is not ours. A reader that is
/// slow to take what is there has all the time it wants, unless we were told twice to end.
void LaunchGroup::limit_draining() {
  phase_timer_.expires_after(kDrainLimit);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const bool unread = out_.pending_bytes() > 0 || err_.pending_bytes() > 0;
    if (unread && !told_twice_) return limit_draining();
    close_streams();
    if (told_twice_) io_.stop();
  });
}

/// Ends the wait for output, and reports if that was all that was left to wait for.
void LaunchGroup::close_streams() {
  for (const auto& process : processes_) process->close_streams();
  finish_if_all_ended();
}

/// Kills and reaps what the workers left behind outside their process groups, the children that
/// those leave to us included.
void LaunchGroup::sweep_strays() {
  const Deadline deadline = Deadline::in(kStrayLimit);
  while (!deadline.expired()) {
    bool found = false;
    for (const pid_t child : own_children()) {
      if (child == guard_.pid()) continue;
      found = true;
      kill(child, SIGKILL);
      waitpid(child, nullptr, WNOHANG);
    }
    if (!found) return;
    poll(nullptr, 0, 1);
  }
}

void LaunchGroup::report() {
  for (const Loss& loss : losses_)
    if (loss.said || exit_code() == 0)
      say(text(end_text(loss.worker->ended()), "; ", loss.later, "."));
  if (culprit_ != nullptr) {
    say(culprit_text(culprit_->ended()));
  } else if (first_victim_ != nullptr && interrupted_by_ == 0) {
    say(culprit_text(first_victim_->ended()));
    if (!unresponsive_.empty())
      say(text(unresponsive_, " did not end and did not answer the others: look there first."));
  } else if (failed_evaluator_ != nullptr) {
    say(culprit_text(failed_evaluator_->ended()));
  }
  if (interrupted_by_ != 0) report_unclean_stops();
  reported_ = true;
  flush();
}

void LaunchGroup::report_unclean_stops() {
  for (const auto& process : processes_) {
    if (!process->end()) continue;  // it could not be started again
    const bool earlier =            // it had ended by itself
        process.get() == failed_evaluator_ ||
        std::any_of(losses_.begin(), losses_.end(),
                    [&](const Loss& loss) { return loss.worker == process.get(); });
    const ChildEnd& end = *process->end();
    if (!earlier && end.failed() && end.code != exit_code() && end.signal != SIGKILL &&
        end.code != kExitPeerLost)
      say(text(process->name(), " ", describe(end), " instead of stopping cleanly."));
  }
}

int LaunchGroup::exit_code() const {
  if (culprit_ != nullptr) return culprit_->end()->code;
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  if (first_victim_ != nullptr) return kExitPeerLost;
  if (servers_overdue_) return kExitFailed;
  return failed_evaluator_ != nullptr ? failed_evaluator_->end()->code : 0;
}

void LaunchGroup::flush() {
  OutputSink& first = err_.mid_line() ? err_ : out_;
  OutputSink& second = err_.mid_line() ? out_ : err_;
  bool done = first.flush();
  if (!one_output_ || !first.mid_line()) done = second.flush() && done;
  for (const auto& process : processes_) process->resume();
  if (done) {
    if (reported_) io_.stop();
    return;
  }
  if (flush_armed_) return;
  flush_armed_ = true;
  flush_timer_.expires_after(kFlushRetry);
  flush_timer_.async_wait([this](const boost::system::error_code& error) {
    flush_armed_ = false;
    if (!error) flush();
  });
}

}  // namespace troupe
