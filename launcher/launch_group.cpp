#include "launcher/launch_group.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <system_error>

#include "cluster/environment.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "launcher/launch_listener.h"
#include "launcher/launch_report.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEchoLimit{5'000};     // for the others to notice that a process is gone
constexpr milliseconds kLeastClosing{1'000};  // for servers to end after the workers
// Before a lost worker is started again, and before one that lost its peers counts as lost itself:
// if a server is the cause, that one shows first.
constexpr milliseconds kLossPause{1'000};

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

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// "3.2 s"
std::string text_of(milliseconds time) {
  return seconds_text(std::chrono::duration<double>(time).count());
}

}  // namespace

LaunchGroup::LaunchGroup(const LaunchOptions& options)
    : options_(options),
      policy_({options.workers, options.servers, options.restarts}),
      one_output_(same_file(1, 2)) {}

int LaunchGroup::run() {
  const Environment own = process_environment();
  const auto path = own.find("PATH");
  program_ = find_program(options_.command[0],
                          path == own.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  make_log_folder();
  using Start = LaunchedWorker::Log::Start;
  for (int index = 0; index < options_.servers; ++index)
    make_process(LaunchRole::server, index, Start::empty);
  for (int rank = 0; rank < options_.workers; ++rank)
    make_process(LaunchRole::worker, rank, Start::empty);
  if (options_.evaluator) make_process(LaunchRole::evaluator, 0, Start::empty);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_.add(SIGCHLD);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)  // nohup
    signals_.add(SIGHUP);
  wait_for_signal();
  start_all();
  io_.run();
  return exit_code();
}

void LaunchGroup::make_log_folder() const {
  if (options_.log_dir.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.log_dir, error);
  if (error)
    throw EnvironmentError(
        text("cannot make the directory ", options_.log_dir.string(), ": ", error.message(), "."),
        "give --log-dir a directory that you may write to.");
}

LaunchedWorker& LaunchGroup::make_process(LaunchRole role, int index,
                                          LaunchedWorker::Log::Start log) {
  const std::string name = task_name(role, index);
  processes_.push_back(std::make_unique<LaunchedWorker>(
      io_, role, index,
      options_.prefix == LaunchOptions::Prefix::worker ? text("[", name, "] ") : "",
      LaunchedWorker::Log{options_.log_dir.empty() ? "" : log_path(name), log},
      LaunchedWorker::Outlets{&out_, &err_, [this] { flush(); },
                              [this] { finish_if_all_ended(); }}));
  return *processes_.back();
}

/// "worker/1" to "<log directory>/worker-1.log".
std::string LaunchGroup::log_path(const std::string& name) const {
  std::string file = name;
  std::replace(file.begin(), file.end(), '/', '-');
  return (options_.log_dir / (file + ".log")).string();
}

void LaunchGroup::start_all() {
  std::vector<std::unique_ptr<LaunchListener>> listeners;  // of the servers, or of the chief
  for (int i = 0; i < std::max(1, options_.servers); ++i)
    listeners.push_back(std::make_unique<LaunchListener>());
  LaunchPlan plan{options_.workers,       listeners.front()->port(), new_generation(),
                  inspect_cores().usable, options_.threads,          options_.evaluator};
  if (options_.servers > 0)
    for (const auto& listener : listeners) plan.server_ports.push_back(listener->port());
  environment_ = launch_environment(process_environment(), plan);
  announce(plan.usable_cores);
  const LaunchRole listening = options_.servers > 0 ? LaunchRole::server : LaunchRole::worker;
  for (const auto& process : processes_) {
    const auto index = static_cast<std::size_t>(process->index());
    LaunchListener* const listener =
        process->role() == listening && index < listeners.size() ? listeners[index].get() : nullptr;
    start_process(*process, listener == nullptr ? -1 : listener->fd());
    if (listener != nullptr) listener->close();
  }
}

void LaunchGroup::start_process(LaunchedWorker& process, int listen_fd) {
  const Environment variables =
      process.role() == LaunchRole::evaluator ? evaluator_environment(environment_.variables)
      : process.role() == LaunchRole::server
          ? server_environment(environment_.variables, process.index(), listen_fd)
          : worker_environment(environment_.variables, process.index(), listen_fd);
  ChildStart start;
  start.program = program_;
  start.command = options_.command;
  start.environment = &variables;
  start.inherit_fd = listen_fd;
  process.start(start);
  guard_.watch(process.pid());
}

void LaunchGroup::announce(int usable_cores) {
  say(text(group_text(options_.workers, options_.servers, options_.evaluator ? 1 : 0), " on ",
           usable_cores, usable_cores == 1 ? " core: " : " cores: ", joined(environment_.threads),
           options_.servers == 0 ? " for each." : " for each worker, one thread for each server."));
  if (!environment_.removed.empty())
    say(text("hidden from the workers, whose group is this launcher's: ",
             joined(environment_.removed), "."));
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
  if (phase_ == Phase::reporting) {  // whoever reads our output does not
    close_streams();
    return io_.stop();
  }
  if (phase_ == Phase::stopping) {
    if (number == SIGHUP) return;
    told_twice_ = true;
    return kill_all();
  }
  interrupted_by_ = number;
  say(text(number == SIGINT ? "interrupted" : text("got signal ", number), "; the workers have ",
           text_of(options_.grace), " to stop", number == SIGINT ? " (once more: at once)." : "."));
  begin_stop(number);
}

void LaunchGroup::reap_children() {
  std::vector<LaunchedWorker*> ended;
  for (;;) {
    siginfo_t info{};  // WNOWAIT: the process keeps its number until its group is killed
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& process) {
      return process->running() && process->pid() == info.si_pid;
    });
    if (found == processes_.end()) {
      if (info.si_pid == guard_.pid()) guard_.lost();
      waitpid(info.si_pid, nullptr, 0);
      continue;
    }
    (*found)->reap();
    guard_.forget((*found)->pid());
    ended.push_back(found->get());
  }
  const auto order = [this](const LaunchedWorker* process) {
    return policy_.order_of_cause(process->role(), process->index(), *process->end());
  };
  std::stable_sort(ended.begin(), ended.end(),
                   [&](const auto* a, const auto* b) { return order(a) < order(b); });
  for (LaunchedWorker* process : ended) on_end(*process);
  // With the last of them gone there is nobody left to wait for but an evaluator without a future.
  if (phase_ == Phase::suspecting && trainers_running() == 0) begin_stop(SIGTERM);
  if (ended.empty()) return;
  limit_closing();
  finish_if_all_ended();
}

void LaunchGroup::on_end(LaunchedWorker& process) {
  if (phase_ == Phase::stopping || culprit_ != nullptr) return;
  if (servers_overdue_ && process.role() == LaunchRole::server) return;
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
      culprit_ = &process;
      return await_echo();
    case Consequence::stop:
      culprit_ = &process;
      return begin_stop(SIGTERM);
  }
}

/// Training is worth more than its evaluation: the workers go on.
void LaunchGroup::on_evaluator_end(LaunchedWorker& evaluator) {
  failed_evaluator_ = &evaluator;
  if (trainers_running() > 0)
    say(text(evaluator.name(), " ", describe(*evaluator.end()),
             "; the workers go on without evaluation."));
}

/// One that was killed is told of at once; one that lost its peers may be the first to see that a
/// server is gone.
void LaunchGroup::on_loss(LaunchedWorker& worker, Consequence consequence) {
  if (phase_ != Phase::running) return;
  const int rank = worker.index();
  const bool again = consequence == Consequence::start_again;
  losses_.push_back(
      again ? Loss{&worker,
                   text("it is started again (", policy_.restarts_of(rank), " of ",
                        options_.restarts, ")"),
                   "it was started again"}
      : policy_.chief_is_done()
          ? Loss{&worker, "the chief had ended well", "the chief had ended well"}
          : Loss{&worker, "training goes on without it", "training went on without it"});
  const std::size_t which = losses_.size() - 1;
  if (worker.end()->signal != 0) tell_loss(which);
  pauses_.push_back(std::make_unique<boost::asio::steady_timer>(io_, kLossPause));
  pauses_.back()->async_wait([this, which, again, rank](const boost::system::error_code& error) {
    if (error || phase_ != Phase::running) return;
    tell_loss(which);
    if (again && !policy_.chief_is_done()) start_again(rank);
  });
}

void LaunchGroup::tell_loss(std::size_t which) {
  Loss& loss = losses_[which];
  if (!loss.said) say(text(end_text(loss.worker->ended()), "; ", loss.now, "."));
  loss.said = true;
}

/// That it cannot be started is no reason to end the others.
void LaunchGroup::start_again(int rank) {
  try {
    start_process(make_process(LaunchRole::worker, rank, LaunchedWorker::Log::Start::as_it_is), -1);
  } catch (const Error& error) {
    say(text("worker/", rank, " is not started again: ", error.what()));
  }
}

/// This worker is a victim by its own account. Whoever it lost ends about now, or hangs.
void LaunchGroup::suspect(LaunchedWorker& victim) {
  if (first_victim_ == nullptr) first_victim_ = &victim;
  if (phase_ != Phase::running) return;
  phase_ = Phase::suspecting;
  phase_timer_.expires_after(options_.grace);
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || phase_ != Phase::suspecting) return;
    for (const auto& process : processes_)
      if (process->running() && process->role() != LaunchRole::evaluator)
        unresponsive_ += (unresponsive_.empty() ? "" : ", ") + process->name();
    begin_stop(SIGTERM);
  });
}

/// The cause is known. The others notice its closed connections and say whom they lost, unless a
/// signal is faster.
void LaunchGroup::await_echo() {
  phase_ = Phase::suspecting;
  phase_timer_.expires_after(std::min(options_.grace, kEchoLimit));
  phase_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && phase_ == Phase::suspecting) begin_stop(SIGTERM);
  });
}

/// After the chief's end, servers without workers and workers without servers have the grace
/// period to end, too.
void LaunchGroup::limit_closing() {
  const auto now = [this] {
    return policy_.closing(running(LaunchRole::worker), running(LaunchRole::server));
  };
  if (closing_limited_ || phase_ != Phase::running || now() == Closing::unlimited) return;
  closing_limited_ = true;
  closing_timer_.expires_after(std::max(options_.grace, kLeastClosing));
  closing_timer_.async_wait([this, now](const boost::system::error_code& error) {
    if (error || phase_ != Phase::running || now() == Closing::unlimited) return;
    servers_overdue_ = now() == Closing::servers_overdue;
    end_overdue(servers_overdue_ ? LaunchRole::server : LaunchRole::worker);
  });
}

void LaunchGroup::end_overdue(LaunchRole role) {
  for (const auto& process : processes_) {
    if (!process->running() || process->role() != role) continue;
    say(text(process->name(), " still runs, though training is complete; it is stopped."));
    process->signal(SIGTERM);
    process->signal(SIGCONT);
  }
  closing_timer_.expires_after(options_.grace);
  closing_timer_.async_wait([this, role](const boost::system::error_code& error) {
    if (error) return;
    for (const auto& process : processes_)
      if (process->role() == role) process->signal(SIGKILL);
  });
}

int LaunchGroup::running(LaunchRole role) const {
  return static_cast<int>(std::count_if(
      processes_.begin(), processes_.end(),
      [role](const auto& process) { return process->running() && process->role() == role; }));
}

int LaunchGroup::trainers_running() const {
  return running(LaunchRole::worker) + running(LaunchRole::server);
}

}  // namespace troupe
