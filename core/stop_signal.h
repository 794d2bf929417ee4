// StopSignal: SIGTERM, SIGHUP and SIGINT (Ctrl-C) as requests to save and stop.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <string>

namespace troupe {

/// Requests to save and stop. If processes of one run got different ones, the first in this list
/// is the run's.
inline constexpr std::array<int, 3> kStopSignals{SIGTERM, SIGHUP, SIGINT};

/// Signals within this time of the first are the same request: `timeout` signals its child and then
/// the child's group, so each signal arrives twice.
inline constexpr std::chrono::milliseconds kSameRequest{100};

/// Whether this process was started to ignore `number`; with SIGHUP that is what `nohup` does.
[[nodiscard]] bool is_ignored(int number);

/// In this thread: a parent that blocks signals around its fork hands that down, and a request to
/// stop would wait for ever.
void unblock_stop_signals();

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int number);

/// While it lives, the first of kStopSignals is remembered instead of ending the process; an
/// ignored SIGHUP stays ignored. Another SIGINT, later than kSameRequest, is handled as before this
/// object was made: by default it ends the process. Other repetitions have no effect. The
/// destructor restores the former handling. One at a time per process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// The signal that came; 0: none.
  [[nodiscard]] int requested() const;
};

/// While it lives this thread gets no signals, and those that it starts never do: signals belong to
/// the thread that runs the program.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace troupe
