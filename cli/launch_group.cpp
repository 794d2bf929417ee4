#include "cli/launch_group.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "cli/environment.h"
#include "cli/launch_environment.h"
#include "cli/launch_listener.h"
#include "core/deadline.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFlushRetry{2};
constexpr milliseconds kDrainLimit{2'000};  // for output of workers that have ended
constexpr milliseconds kKillLimit{10'000};  // for SIGKILL to take effect
constexpr milliseconds kStrayLimit{1'000};

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f s", seconds);
  return buffer;
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

/// A later start of the same job has a larger number.
std::uint64_t new_generation() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
}

/// What a worker left behind and the kernel gave to us (we are the subreaper).
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::ifstream list(text("/proc/self/task/", getpid(), "/children"));
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Signals before other failures before lost peers: of ends that we learn of in one go, the
/// likelier cause comes first.
int by_cause(const LaunchedWorker& worker) {
  if (worker.is_evaluator()) return 3;
  if (worker.end()->signal != 0) return 0;
  return worker.end()->code == kExitPeerLost ? 2 : 1;
}

}  // namespace

LaunchGroup::LaunchGroup(const LaunchOptions& options)
    : options_(options), one_output_(same_file(1, 2)) {}

int LaunchGroup::run() {
  const Environment own = process_environment();
  const auto path = own.find("PATH");
  const std::string program = find_program(
      options_.command[0], path == own.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  make_processes();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_.add(SIGCHLD);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)  // nohup
    signals_.add(SIGHUP);
  wait_for_signal();
  start_workers(program);
  io_.run();
  return exit_code();
}

void LaunchGroup::make_processes() {
  if (!options_.log_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options_.log_dir, error);
    if (error)
      throw EnvironmentError(
          text("cannot make the directory ", options_.log_dir.string(), ": ", error.message(), "."),
          "give --log-dir a directory that you may write to.");
  }
  for (int rank = 0; rank < options_.workers; ++rank)
    make_process(LaunchedWorker::Role::worker, rank);
  if (options_.evaluator) make_process(LaunchedWorker::Role::evaluator, 0);
}

void LaunchGroup::make_process(LaunchedWorker::Role role, int rank) {
  const std::string name =
      text(role == LaunchedWorker::Role::evaluator ? "evaluator/" : "worker/", rank);
  workers_.push_back(std::make_unique<LaunchedWorker>(
      io_, role, rank,
      options_.prefix == LaunchOptions::Prefix::worker ? text("[", name, "] ") : "",
      options_.log_dir.empty() ? "" : log_path(name),
      LaunchedWorker::Outlets{&out_, &err_, [this] { flush(); },
                              [this] { finish_if_all_ended(); }}));
}

/// "worker/1" to "<log directory>/worker-1.log".
std::string LaunchGroup::log_path(const std::string& name) const {
  std::string file = name;
  std::replace(file.begin(), file.end(), '/', '-');
  return (options_.log_dir / (file + ".log")).string();
}

void LaunchGroup::start_workers(const std::string& program) {
  LaunchListener listener;
  const int usable = inspect_cores().usable;
  LaunchEnvironment environment = launch_environment(
      process_environment(), {options_.workers, listener.port(), new_generation(), usable,
                              options_.threads, options_.evaluator});
  say(text(options_.workers, options_.workers == 1 ? " worker" : " workers",
           options_.evaluator ? " and an evaluator on " : " on ", usable,
           usable == 1 ? " core: " : " cores: ", joined(environment.threads), " for each."));
  if (!environment.removed.empty())
    say(text("hidden from the workers, whose group is this launcher's: ",
             joined(environment.removed), "."));
  for (const auto& worker : workers_) {
    const bool is_chief = worker->rank() == 0 && !worker->is_evaluator();
    const int listen_fd = is_chief ? listener.fd() : -1;
    if (worker->is_evaluator())
      set_evaluator(environment.variables);
    else
      set_worker(environment.variables, worker->rank(), listen_fd);
    ChildStart start;
    start.program = program;
    start.command = options_.command;
    start.environment = &environment.variables;
    start.inherit_fd = listen_fd;
    worker->start(start);
    guard_.watch(worker->pid());
    if (is_chief) listener.close();
  }
}

void LaunchGroup::say(const std::string& sentence) {
  err_.append(text("troupe: ", sentence, '\n'));
  flush();
}

void LaunchGroup::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    wait_for_signal();
    on_signal(number);
  });
}

void LaunchGroup::on_signal(int number) {
  if (number == SIGCHLD) return reap_children();
  if (phase_ == Phase::reporting) return io_.stop();  // whoever reads our output does not
  if (phase_ == Phase::stopping) {
    if (number != SIGHUP) kill_all();
    return;
  }
  interrupted_by_ = number;
  say(text(number == SIGINT ? "interrupted" : text("got signal ", number), "; the workers have ",
           seconds_text(std::chrono::duration<double>(options_.grace).count()), " to stop",
           number == SIGINT ? " (once more: at once)." : "."));
  begin_stop(number);
}

void LaunchGroup::reap_children() {
  std::vector<LaunchedWorker*> ended;
  for (;;) {
    siginfo_t info{};  // WNOWAIT: the process keeps its number until its group is killed
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const auto found = std::find_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
      return worker->running() && worker->pid() == info.si_pid;
    });
    if (found == workers_.end()) {
      if (info.si_pid == guard_.pid()) guard_.lost();
      waitpid(info.si_pid, nullptr, 0);
      continue;
    }
    (*found)->reap();
    guard_.forget((*found)->pid());
    ended.push_back(found->get());
  }
  std::stable_sort(ended.begin(), ended.end(),
                   [](const auto* a, const auto* b) { return by_cause(*a) < by_cause(*b); });
  for (LaunchedWorker* worker : ended) on_worker_end(*worker);
  // With the last worker gone there is nobody left to wait for but an evaluator without a future.
  if (phase_ == Phase::suspecting && !workers_running()) begin_stop(SIGTERM);
  if (!ended.empty()) finish_if_all_ended();
}

void LaunchGroup::on_worker_end(LaunchedWorker& worker) {
  if (phase_ == Phase::stopping || !worker.end()->failed()) return;
  if (worker.is_evaluator()) return on_evaluator_end(worker);
  if (worker.end()->code == kExitPeerLost && worker.end()->signal == 0) return suspect(worker);
  culprit_ = &worker;
  begin_stop(SIGTERM);
}

/// Training is worth more than its evaluation: the workers go on.
void LaunchGroup::on_evaluator_end(LaunchedWorker& evaluator) {
  failed_evaluator_ = &evaluator;
  if (workers_running())
    say(text(evaluator.name(), " ", describe(*evaluator.end()),
             "; the workers go on without evaluation."));
}

/// This worker is a victim by its own account. Whoever it lost ends about now, or hangs.
void LaunchGroup::suspect(LaunchedWorker& victim) {
  if (first_victim_ == nullptr) first_victim_ = &victim;
  if (phase_ != Phase::running) return;
  phase_ = Phase::suspecting;
  phase_timer_.expires_after(options_.grace);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || phase_ != Phase::suspecting) return;
    for (const auto& worker : workers_)
      if (worker->running() && !worker->is_evaluator())
        unresponsive_ += (unresponsive_.empty() ? "" : ", ") + worker->name();
    begin_stop(SIGTERM);
  });
}

void LaunchGroup::begin_stop(int signal_number) {
  phase_ = Phase::stopping;
  for (const auto& worker : workers_) {
    worker->signal(signal_number);
    worker->signal(SIGCONT);  // one that was stopped can act on it, too
  }
  phase_timer_.expires_after(options_.grace);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || !any_running()) return;
    for (const auto& worker : workers_)
      if (worker->running()) say(text(worker->name(), " did not stop in time and is killed."));
    kill_all();
  });
}

void LaunchGroup::kill_all() {
  for (const auto& worker : workers_) worker->signal(SIGKILL);
  if (killing_) return;
  killing_ = true;
  phase_timer_.expires_after(kKillLimit);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) io_.stop();  // the kernel holds one of them; it dies when it is let go
  });
}

bool LaunchGroup::any_running() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->running(); });
}

bool LaunchGroup::workers_running() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->running() && !worker->is_evaluator();
  });
}

void LaunchGroup::finish_if_all_ended() {
  if (any_running() || reported_) return;
  if (phase_ != Phase::reporting) {
    phase_ = Phase::reporting;
    sweep_strays();
    limit_draining();
  }
  for (const auto& worker : workers_)
    if (worker->streams_open()) return;
  report();
}

/// A stream that stays open after the sweep is held by a process that is not ours. A reader that is
/// slow to take what is there has all the time it wants.
void LaunchGroup::limit_draining() {
  phase_timer_.expires_after(kDrainLimit);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || reported_) return;
    if (out_.pending_bytes() > 0 || err_.pending_bytes() > 0) return limit_draining();
    for (const auto& worker : workers_) worker->close_streams();
    finish_if_all_ended();
  });
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
  if (culprit_ != nullptr) {
    report_culprit(*culprit_);
  } else if (first_victim_ != nullptr && interrupted_by_ == 0) {
    report_culprit(*first_victim_);
    if (!unresponsive_.empty())
      say(text(unresponsive_, " did not end and did not answer the others: look there first."));
  } else if (failed_evaluator_ != nullptr) {
    report_culprit(*failed_evaluator_);
  }
  if (interrupted_by_ != 0)
    for (const auto& worker : workers_) {
      if (worker.get() == failed_evaluator_) continue;  // it had ended by itself
      const ChildEnd& end = *worker->end();
      if (end.failed() && end.code != exit_code() && end.signal != SIGKILL &&
          end.code != kExitPeerLost)
        say(text(worker->name(), " ", describe(end), " instead of stopping cleanly."));
    }
  reported_ = true;
  flush();
}

void LaunchGroup::report_culprit(const LaunchedWorker& culprit) {
  const auto& lines = culprit.last_lines();
  std::string message = text(culprit.name(), " ", describe(*culprit.end()), " after ",
                             seconds_text(culprit.seconds()));
  if (culprit.end()->signal == SIGKILL) message += " (out of memory? `dmesg` knows)";
  message += lines.empty() ? "; it printed nothing." : "; its last lines:";
  for (const std::string& line : lines) message += "\n  " + line;
  if (!options_.log_dir.empty())
    message += text("\nAll of it is in ", log_path(culprit.name()), ".");
  say(message);
}

int LaunchGroup::exit_code() const {
  if (culprit_ != nullptr) return culprit_->end()->code;
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  if (first_victim_ != nullptr) return kExitPeerLost;
  return failed_evaluator_ != nullptr ? failed_evaluator_->end()->code : 0;
}

void LaunchGroup::flush() {
  OutputSink& first = err_.mid_line() ? err_ : out_;
  OutputSink& second = err_.mid_line() ? out_ : err_;
  bool done = first.flush();
  if (!one_output_ || !first.mid_line()) done = second.flush() && done;
  for (const auto& worker : workers_) worker->resume();
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
