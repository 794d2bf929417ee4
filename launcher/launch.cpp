#include "launcher/launch.h"

#include <sys/prctl.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/stop_signal.h"
#include "core/text.h"
#include "launcher/launch_guard.h"
#include "launcher/launch_outcome.h"
#include "launcher/launch_output.h"
#include "launcher/launch_policy.h"
#include "launcher/launch_processes.h"
#include "launcher/launch_report.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEchoLimit{1'000};     // for the others to notice that a process is gone
constexpr milliseconds kLeastClosing{1'000};  // for servers to end after the workers
constexpr milliseconds kDrainLimit{2'000};    // for output of workers that have ended
constexpr milliseconds kKillLimit{10'000};    // for SIGKILL to take effect
// Before a lost worker is started again, and before one that lost its peers counts as lost itself:
// if a server is the cause, that one shows first.
constexpr milliseconds kLossPause{1'000};

/// "3.2 s"
std::string text_of(milliseconds time) {
  return seconds_text(std::chrono::duration<double>(time).count());
}

/// The running group: forwards signals, acts on what launch_policy.h says about every end, and ends
/// only when nothing that it started is left.
class LaunchGroup {
 public:
  explicit LaunchGroup(const LaunchOptions& options)
      : options_(options), policy_({options.workers, options.servers, options.restarts}) {}
  [[nodiscard]] int run();

 private:
  /// The evaluator is no part of this: its failure changes no phase, and the launcher waits for it
  /// as long as nothing failed.
  enum class Phase {
    running,
    /// Others have the time to show what they know: after a worker ended with kExitPeerLost, which
    /// says that another one is the cause, or after a signal killed a process that the others are
    /// about to miss.
    suspecting,
    stopping,  // after a failure or a signal: SIGTERM was sent
    killing,   // SIGKILL was sent
    draining,  // all processes ended, and what is left is output
    reported
  };
  using Timer = boost::asio::steady_timer;

  void wait_for_signal();
  void on_signal(int number);
  void on_children();
  void on_end(LaunchedWorker& process);
  void on_evaluator_end(LaunchedWorker& evaluator);
  void on_loss(LaunchedWorker& worker, Consequence consequence);
  void tell_loss(std::size_t loss);
  void start_again(int rank);
  void suspect(LaunchedWorker& victim);
  void suspect_last();
  std::vector<const LaunchedWorker*> stop_unresponsive();
  void await_echo();
  void limit_closing();
  void end_overdue(LaunchRole role);
  void begin_stop(int signal_number);
  void kill_all();
  void finish_if_all_ended();
  void limit_draining();
  void close_streams();
  void report();

  const LaunchOptions& options_;
  LaunchGuard guard_;  // first: it must not inherit what the others open
  LaunchPolicy policy_;
  LaunchOutcome outcome_;
  boost::asio::io_context io_{1};
  LaunchConsole console_{io_, [this](LaunchConsole::Written written) {
                           processes_.resume();
                           if (written == LaunchConsole::Written::all && phase_ == Phase::reported)
                             io_.stop();
                         }};
  LaunchProcesses processes_{io_, options_, guard_, console_, [this] { finish_if_all_ended(); }};
  boost::asio::signal_set signals_{io_};
  Timer suspicion_timer_{io_};  // ends the phase suspecting
  Timer grace_timer_{io_};      // between SIGTERM and SIGKILL
  Timer kill_timer_{io_};
  Timer drain_timer_{io_};
  Timer closing_timer_{io_};  // for processes no longer needed to end by themselves
  Timer overdue_timer_{io_};  // and then by SIGTERM
  std::vector<std::unique_ptr<Timer>> loss_pauses_;

  Phase phase_ = Phase::running;
  bool closing_limited_ = false;
  std::chrono::steady_clock::time_point interrupted_at_{};
  bool told_twice_ = false;  // a signal came while processes were being stopped
};

int LaunchGroup::run() {
  processes_.prepare();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_.add(SIGCHLD);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  if (!is_ignored(SIGHUP)) signals_.add(SIGHUP);
  wait_for_signal();
  processes_.start_all();
  io_.run();
  return outcome_.exit_code();
}

void LaunchGroup::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    wait_for_signal();
    on_signal(number);
  });
}

void LaunchGroup::on_signal(int number) {
  if (number == SIGCHLD) return on_children();
  const auto now = std::chrono::steady_clock::now();
  if (now - interrupted_at_ < kSameRequest) return;
  interrupted_at_ = now;
  if (phase_ >= Phase::draining) {  // the reader of our output is gone
    close_streams();
    return io_.stop();
  }
  if (phase_ >= Phase::stopping) {
    if (number == SIGHUP) return;
    told_twice_ = true;
    return kill_all();
  }
  outcome_.interrupt(number);
  console_.say(text(number == SIGINT ? "interrupted" : text("got signal ", number),
                    "; the workers have ", text_of(options_.grace), " to stop",
                    number == SIGINT ? " (once more: at once)." : "."));
  begin_stop(number);
}

void LaunchGroup::on_children() {
  std::vector<LaunchedWorker*> ended = processes_.reap();
  const auto order = [this](const LaunchedWorker* process) {
    return policy_.order_of_cause(process->role(), process->index(), *process->end());
  };
  std::stable_sort(ended.begin(), ended.end(),
                   [&](const auto* a, const auto* b) { return order(a) < order(b); });
  for (LaunchedWorker* process : ended) on_end(*process);
  // With the last of them gone there is nobody left to wait for but an evaluator without a future.
  if (phase_ == Phase::suspecting && processes_.trainers_running() == 0) begin_stop(SIGTERM);
  if (ended.empty()) return;
  if (phase_ == Phase::suspecting && !outcome_.has_culprit() && processes_.trainers_running() == 1)
    suspect_last();
  limit_closing();
  finish_if_all_ended();
}

void LaunchGroup::on_end(LaunchedWorker& process) {
  if (phase_ >= Phase::stopping || outcome_.has_culprit()) return;
  if (outcome_.servers_overdue() && process.role() == LaunchRole::server) return;
  const Consequence consequence = policy_.on_end(process.role(), process.index(), *process.end());
  switch (consequence) {
    case Consequence::none:
      return;
    case Consequence::bystander:
      return on_evaluator_end(process);
    case Consequence::lost:
    case Consequence::start_again:
      return on_loss(process, consequence);
    case Consequence::suspect:
      return suspect(process);
    case Consequence::await_echo:
      outcome_.blame(process);
      return await_echo();
    case Consequence::stop:
      outcome_.blame(process);
      return begin_stop(SIGTERM);
  }
}

/// Training is worth more than its evaluation: the workers continue.
void LaunchGroup::on_evaluator_end(LaunchedWorker& evaluator) {
  outcome_.add_failed_evaluator(evaluator);
  if (processes_.trainers_running() > 0)
    console_.say(text(evaluator.name(), " ", describe(*evaluator.end()),
                      "; training continues without evaluation."));
}

/// A killed worker is reported at once; one that lost its peers may be the first to see that a
/// server is gone.
void LaunchGroup::on_loss(LaunchedWorker& worker, Consequence consequence) {
  if (phase_ != Phase::running) return;
  const int rank = worker.index();
  const bool again = consequence == Consequence::start_again;
  const std::string done = "the chief had ended well";
  const std::size_t loss =
      again                     ? outcome_.add_loss(worker,
                                                    text("it is started again (", policy_.restarts_of(rank), " of ",
                                                         options_.restarts, ")"),
                                                    "it was started again")
      : policy_.chief_is_done() ? outcome_.add_loss(worker, done, done)
                                : outcome_.add_loss(worker, "training continues without it",
                                                    "training continued without it");
  if (worker.end()->signal != 0) tell_loss(loss);
  loss_pauses_.push_back(std::make_unique<Timer>(io_, kLossPause));
  loss_pauses_.back()->async_wait(
      [this, loss, again, rank](const boost::system::error_code& error) {
        if (error || phase_ != Phase::running) return;
        tell_loss(loss);
        if (again && !policy_.chief_is_done()) start_again(rank);
      });
}

void LaunchGroup::tell_loss(std::size_t loss) {
  const std::string sentence = outcome_.tell(loss);
  if (!sentence.empty()) console_.say(sentence);
}

/// That it cannot be started is no reason to end the others.
void LaunchGroup::start_again(int rank) {
  try {
    processes_.start_again(rank);
  } catch (const Error& error) {
    console_.say(text("worker/", rank, " is not started again: ", error.what()));
  }
}

/// This worker is a victim by its own account. Whoever it lost ends about now, or hangs.
void LaunchGroup::suspect(LaunchedWorker& victim) {
  outcome_.add_victim(victim);
  if (phase_ != Phase::running) return;
  phase_ = Phase::suspecting;
  suspicion_timer_.expires_after(options_.grace);
  suspicion_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && phase_ == Phase::suspecting) stop_unresponsive();
  });
}

/// All others have given this one up, so it has nothing left to do: no training to end and nothing
/// to save.
void LaunchGroup::suspect_last() {
  suspicion_timer_.expires_after(std::min(options_.grace, kEchoLimit));
  suspicion_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || phase_ != Phase::suspecting) return;
    for (const LaunchedWorker* last : stop_unresponsive()) last->signal(SIGKILL);
  });
}

/// Returns those that still ran.
std::vector<const LaunchedWorker*> LaunchGroup::stop_unresponsive() {
  std::vector<const LaunchedWorker*> running;
  std::vector<std::string> names;
  for (const auto& process : processes_.all()) {
    if (!process->running() || process->role() == LaunchRole::evaluator) continue;
    running.push_back(process.get());
    names.push_back(process->name());
  }
  outcome_.set_unresponsive(join(names));
  begin_stop(SIGTERM);
  return running;
}

/// The cause is known. The others notice its closed connections and say whom they lost, unless a
/// signal is faster.
void LaunchGroup::await_echo() {
  phase_ = Phase::suspecting;
  suspicion_timer_.expires_after(std::min(options_.grace, kEchoLimit));
  suspicion_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && phase_ == Phase::suspecting) begin_stop(SIGTERM);
  });
}

/// After the chief's end, servers without workers and workers without servers have the grace
/// period to end, too.
void LaunchGroup::limit_closing() {
  const auto now = [this] {
    return policy_.closing(processes_.running(LaunchRole::worker),
                           processes_.running(LaunchRole::server));
  };
  if (closing_limited_ || phase_ != Phase::running || now() == Closing::unlimited) return;
  closing_limited_ = true;
  closing_timer_.expires_after(std::max(options_.grace, kLeastClosing));
  closing_timer_.async_wait([this, now](const boost::system::error_code& error) {
    if (error || phase_ != Phase::running || now() == Closing::unlimited) return;
    if (now() == Closing::servers_overdue) {
      outcome_.set_servers_overdue();
      end_overdue(LaunchRole::server);
    } else {
      end_overdue(LaunchRole::worker);
    }
  });
}

void LaunchGroup::end_overdue(LaunchRole role) {
  for (const auto& process : processes_.all()) {
    if (!process->running() || process->role() != role) continue;
    console_.say(text(process->name(), " still runs, though training is complete; it is stopped."));
    process->signal(SIGTERM);
    process->signal(SIGCONT);
  }
  overdue_timer_.expires_after(options_.grace);
  overdue_timer_.async_wait([this, role](const boost::system::error_code& error) {
    if (error) return;
    for (const auto& process : processes_.all())
      if (process->role() == role) process->signal(SIGKILL);
  });
}

void LaunchGroup::begin_stop(int signal_number) {
  phase_ = Phase::stopping;
  processes_.signal(signal_number);
  processes_.signal(SIGCONT);  // one that was stopped can act on it, too
  grace_timer_.expires_after(options_.grace);
  grace_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || phase_ != Phase::stopping) return;
    for (const auto& process : processes_.all())
      if (process->running())
        console_.say(text(process->name(), " did not stop in time and is killed."));
    kill_all();
  });
}

void LaunchGroup::kill_all() {
  processes_.signal(SIGKILL);
  if (phase_ == Phase::killing) return;
  phase_ = Phase::killing;
  kill_timer_.expires_after(kKillLimit);
  kill_timer_.async_wait([this](const boost::system::error_code& error) {
    // The kernel holds one of them; it dies when it is let go.
    if (!error && phase_ == Phase::killing) io_.stop();
  });
}

void LaunchGroup::finish_if_all_ended() {
  if (phase_ == Phase::reported || processes_.trainers_running() > 0 ||
      processes_.running(LaunchRole::evaluator) > 0) {
    return;
  }
  if (phase_ != Phase::draining) {
    phase_ = Phase::draining;
    processes_.sweep_strays();
    limit_draining();
  }
  if (!processes_.streams_open()) report();
}

/// A stream that stays open after the sweep is held by a process that is not ours. A reader that is
/// slow to take what is there has all the time it wants, unless we were told twice to end.
void LaunchGroup::limit_draining() {
  drain_timer_.expires_after(kDrainLimit);
  drain_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (!console_.is_empty() && !told_twice_) return limit_draining();
    close_streams();
    if (told_twice_) io_.stop();
  });
}

/// Ends the wait for output, and reports if that was all that was left to wait for.
void LaunchGroup::close_streams() {
  processes_.close_streams();
  finish_if_all_ended();
}

void LaunchGroup::report() {
  for (const std::string& sentence : outcome_.report(processes_.all())) console_.say(sentence);
  phase_ = Phase::reported;
  console_.flush();
}

}  // namespace

int launch(const LaunchOptions& options) { return LaunchGroup(options).run(); }

}  // namespace troupe
