#include "troupe/launcher/run/launch_processes.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/cli/cluster/sealed_secret.h"
#include "troupe/core/clock.h"
#include "troupe/core/error.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_report.h"
#include "troupe/launcher/run/launch_secret.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kStrayLimit{1'000};

/// What a worker left behind and the kernel gave to us (we are the subreaper).
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::ifstream list(text("/proc/self/task/", getpid(), "/children"));
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

/// Whether any process of the group of `leader` runs.
bool group_runs(pid_t leader) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");  // "7 (a name) S 1 7 ...": state, parent, group
    std::string line;
    std::getline(file, line);
    const auto behind_name = line.rfind(')');
    if (behind_name == std::string::npos) continue;
    std::istringstream rest(line.substr(behind_name + 1));
    char state = 0;
    pid_t parent = 0;
    pid_t group = 0;
    rest >> state >> parent >> group;
    if (group == leader && state != 'Z' && state != 'X') return true;
  }
  return false;
}

/// "worker/1" to "<log directory>/worker-1.log"; empty: no log.
std::string log_path(const std::filesystem::path& folder, std::string name) {
  if (folder.empty()) return "";
  std::replace(name.begin(), name.end(), '/', '-');
  return (folder / (name + ".log")).string();
}

void make_log_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw EnvironmentError(
        text("cannot make the directory ", folder.string(), ": ", error.message(), "."),
        "give --log-dir a directory that you may write to.");
}

bool is_log(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".log" &&
         (name.rfind("worker-", 0) == 0 || name.rfind("ps-", 0) == 0 ||
          name.rfind("evaluator-", 0) == 0);
}

/// Every log of a former run gets that run's number: "worker-0.log" becomes "worker-0.log.3" after
/// two earlier runs. `own`: the only logs to look at, where other machines may write to the folder,
/// too; empty: all.
void keep_former_logs(const std::filesystem::path& folder, const std::set<std::string>& own) {
  if (folder.empty()) return;
  std::vector<std::filesystem::path> logs;
  int last = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string number = entry.path().extension().string();
    const auto is_ours = [&own](const std::filesystem::path& file) {
      return is_log(file) && (own.empty() || own.count(file.filename().string()) > 0);
    };
    if (is_ours(entry.path())) {
      logs.push_back(entry.path());
    } else if (is_ours(entry.path().stem()) && number.size() > 1 && number.size() < 9 &&
               number.find_first_not_of("0123456789", 1) == std::string::npos) {
      last = std::max(last, std::stoi(number.substr(1)));
    }
  }
  for (const auto& log : logs) {
    std::filesystem::rename(log, text(log.string(), ".", last + 1), error);
    if (error)
      throw EnvironmentError(text("cannot rename ", log.string(), ": ", error.message(), "."),
                             "give --log-dir a directory that you may write to.");
  }
}

ProcessStatus::State state_of(const LaunchedWorker& process) {
  using State = ProcessStatus::State;
  const auto& end = process.end();
  if (!end) return State::running;
  if (!end->failed()) return State::ended;
  return is_loss(*end) ? State::lost : State::failed;
}

}  // namespace

LaunchProcesses::LaunchProcesses(boost::asio::io_context& io, const LaunchOptions& options,
                                 LaunchGuard& guard, LaunchConsole& console,
                                 std::function<void()> on_closed)
    : io_(io),
      options_(options),
      guard_(guard),
      console_(console),
      on_closed_(std::move(on_closed)) {}

void LaunchProcesses::make_all(int first_rank) {
  make_log_folder(options_.log_dir);
  std::set<std::string> own;
  if (options_.node.nodes > 1) {
    for (int i = 0; i < options_.workers; ++i) own.insert(text("worker-", first_rank + i, ".log"));
    if (options_.evaluator) own.insert("evaluator-0.log");
  }
  keep_former_logs(options_.log_dir, own);
  for (int index = 0; index < options_.servers; ++index) make(LaunchRole::server, index);
  for (int i = 0; i < options_.workers; ++i) make(LaunchRole::worker, first_rank + i);
  if (options_.evaluator && first_rank == 0) make(LaunchRole::evaluator, 0);
}

LaunchedWorker& LaunchProcesses::make(LaunchRole role, int index) {
  const std::string name = task_name(role, index);
  processes_.push_back(std::make_unique<LaunchedWorker>(
      io_, role, index, options_.prefix ? text("[", name, "] ") : "",
      log_path(options_.log_dir, name), console_, on_closed_));
  return *processes_.back();
}

void LaunchProcesses::start_all(const std::string& program, GroupStart start_of_group,
                                LaunchRounds* rounds) {
  rounds_ = rounds;
  host_ = start_of_group.host;
  const Environment own = process_environment();
  const auto secret =
      start_of_group.secret ? start_of_group.secret : launch_secret(options_.secret_file, own);
  secret_ = seal(*secret);
  program_ = program;
  progress_fd_ = start_of_group.progress_fd;
  const NodePlan& told = start_of_group.plan;
  if (told.is_under_way)
    make_log_folder(options_.log_dir);
  else
    make_all(told.first_rank);
  auto& listeners = start_of_group.listeners;
  LaunchPlan plan{told, options_.workers, inspect_cores().usable, options_.threads,
                  options_.evaluator};
  if (options_.servers > 0)
    for (const LaunchListener& listener : listeners) plan.server_ports.push_back(listener.port());
  plan.secret_fd = secret_.get();
  environment_ = launch_environment(own, plan);
  announce(plan.usable_cores);
  const LaunchRole listening = options_.servers > 0 ? LaunchRole::server : LaunchRole::worker;
  for (const auto& process : processes_) {
    const auto index = static_cast<std::size_t>(process->index() - told.first_rank);
    LaunchListener* const listener =
        process->role() == listening && index < listeners.size() ? &listeners[index] : nullptr;
    start(*process, listener);
    if (listener != nullptr) listener->close();
  }
}

void LaunchProcesses::start(LaunchedWorker& process, const LaunchListener* listener, bool joins) {
  const int listen_fd = listener == nullptr ? -1 : listener->fd();
  UniqueFd line;
  if (rounds_ != nullptr && process.role() == LaunchRole::worker)
    line = rounds_->open_line(process.index(), {host_, listener->port()}, joins);
  const int progress_fd = process.role() == LaunchRole::worker ? progress_fd_ : -1;
  UniqueFd losses;
  if (process.role() == LaunchRole::server) {
    auto ends = make_message_line();
    losses_.push_back(std::move(ends[0]));
    losses = std::move(ends[1]);
  }
  const Environment variables = environment_of(
      {process.role(), process.index(), listen_fd, progress_fd, line.get(), joins, losses.get()},
      environment_.variables);
  ChildStart start;
  start.program = program_;
  start.command = options_.command;
  start.environment = &variables;
  start.inherited = {listen_fd, line.get(), progress_fd, losses.get()};
  if (process.role() != LaunchRole::evaluator) start.inherited.push_back(secret_.get());
  try {
    process.start(start);
  } catch (const Error&) {  // its line is open already
    const EndedProcess ended{process.name(), {kExitSignal + SIGKILL, SIGKILL}};
    if (rounds_ != nullptr) static_cast<void>(rounds_->ended(process.index(), ended));
    throw;
  }
  guard_.watch(process.pid());
}

void LaunchProcesses::announce(int usable_cores) const {
  console_.say(text(
      group_text(options_.workers, options_.servers, options_.evaluator ? 1 : 0), " on ",
      usable_cores, usable_cores == 1 ? " core: " : " cores: ", join(environment_.threads, " "),
      options_.servers == 0 ? " for each." : " for each worker, one thread for each server."));
  if (!environment_.removed.empty())
    console_.say(text("hidden from the workers, whose group is this launcher's: ",
                      join(environment_.removed, " "), "."));
}

void LaunchProcesses::give_up(int rank) const {
  const auto number = static_cast<std::int32_t>(rank);
  for (const UniqueFd& server : losses_)
    static_cast<void>(send(server.get(), &number, sizeof number, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void LaunchProcesses::start_again(int rank) {
  expected_again_.erase(rank);
  if (rounds_ == nullptr) return start(make(LaunchRole::worker, rank), nullptr);
  const LaunchListener listener(boost::asio::ip::make_address(host_));
  start(make(LaunchRole::worker, rank), &listener, /*joins=*/true);
}

std::vector<LaunchedWorker*> LaunchProcesses::reap() const {
  std::vector<LaunchedWorker*> ended;
  for (const auto& process : processes_) {
    siginfo_t info{};  // WNOWAIT: the process keeps its number until its group is killed
    if (!process->running() ||
        waitid(P_PID, static_cast<id_t>(process->pid()), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
      continue;
    if (info.si_pid == 0) continue;
    // A shell dies of a request to stop while the program that it started saves. That is our child
    // then, so we are told of its end.
    const bool may_leave_program = process->is_asked_to_stop() && info.si_code == CLD_KILLED;
    if (may_leave_program && group_runs(process->pid())) continue;
    process->reap();
    guard_.forget(process->pid());
    ended.push_back(process.get());
  }
  for (const pid_t child : own_children()) {
    const auto is_child = [child](const auto& process) {
      return process->running() && process->pid() == child;
    };
    if (std::any_of(processes_.begin(), processes_.end(), is_child)) continue;
    if (waitpid(child, nullptr, WNOHANG) == child && child == guard_.pid()) guard_.lost();
  }
  return ended;
}

void LaunchProcesses::signal(int number) const {
  for (const auto& process : processes_) process->signal(number);
}

void LaunchProcesses::resume() const {
  for (const auto& process : processes_) process->resume();
}

void LaunchProcesses::close_streams() const {
  for (const auto& process : processes_) process->close_streams();
}

void LaunchProcesses::sweep_strays() const {
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

LaunchedWorker* LaunchProcesses::last_of(int rank) const {
  LaunchedWorker* last = nullptr;
  for (const auto& process : processes_)
    if (process->role() == LaunchRole::worker && process->index() == rank) last = process.get();
  return last;
}

int LaunchProcesses::running(LaunchRole role) const {
  return static_cast<int>(std::count_if(
      processes_.begin(), processes_.end(),
      [role](const auto& process) { return process->running() && process->role() == role; }));
}

int LaunchProcesses::trainers_running() const {
  return running(LaunchRole::worker) + running(LaunchRole::server);
}

bool LaunchProcesses::streams_open() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process->streams_open(); });
}

std::vector<ProcessStatus> LaunchProcesses::statuses() const {
  std::vector<ProcessStatus> all;
  std::map<std::pair<LaunchRole, int>, std::size_t> places;
  for (const auto& process : processes_) {
    const auto [place, is_new] =
        places.emplace(std::make_pair(process->role(), process->index()), all.size());
    if (is_new) all.push_back({process->name()});
    const bool again =
        process->role() == LaunchRole::worker && expected_again_.count(process->index()) > 0;
    all[place->second].state = again ? ProcessStatus::State::restarting : state_of(*process);
  }
  return all;
}

}  // namespace troupe
