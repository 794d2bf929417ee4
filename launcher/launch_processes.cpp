#include "launcher/launch_processes.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "cluster/cluster_spec.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "launcher/launch_listener.h"
#include "launcher/launch_report.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kStrayLimit{1'000};

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : " ") + word;
  return result;
}

/// A later start of the same job has a larger number.
std::uint64_t new_generation() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

/// What a worker left behind and the kernel gave to us (we are the subreaper).
std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  std::ifstream list(text("/proc/self/task/", getpid(), "/children"));
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
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
/// two earlier runs.
void keep_former_logs(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::vector<std::filesystem::path> logs;
  int last = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string number = entry.path().extension().string();
    if (is_log(entry.path())) {
      logs.push_back(entry.path());
    } else if (is_log(entry.path().stem()) && number.size() > 1 && number.size() < 9 &&
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

}  // namespace

LaunchProcesses::LaunchProcesses(boost::asio::io_context& io, const LaunchOptions& options,
                                 LaunchGuard& guard, LaunchConsole& console,
                                 std::function<void()> on_closed)
    : io_(io),
      options_(options),
      guard_(guard),
      console_(console),
      on_closed_(std::move(on_closed)) {}

void LaunchProcesses::prepare() {
  const Environment own = process_environment();
  const auto path = own.find("PATH");
  program_ = find_program(options_.command[0],
                          path == own.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  make_log_folder(options_.log_dir);
  keep_former_logs(options_.log_dir);
  for (int index = 0; index < options_.servers; ++index) make(LaunchRole::server, index);
  for (int rank = 0; rank < options_.workers; ++rank) make(LaunchRole::worker, rank);
  if (options_.evaluator) make(LaunchRole::evaluator, 0);
}

LaunchedWorker& LaunchProcesses::make(LaunchRole role, int index) {
  const std::string name = task_name(role, index);
  processes_.push_back(std::make_unique<LaunchedWorker>(
      io_, role, index,
      options_.prefix == LaunchOptions::Prefix::worker ? text("[", name, "] ") : "",
      log_path(options_.log_dir, name),
      LaunchedWorker::Outlets{&console_.out(), &console_.err(), [this] { console_.flush(); },
                              on_closed_}));
  return *processes_.back();
}

void LaunchProcesses::start_all() {
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
    start(*process, listener == nullptr ? -1 : listener->fd());
    if (listener != nullptr) listener->close();
  }
}

void LaunchProcesses::start(LaunchedWorker& process, int listen_fd) {
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

void LaunchProcesses::announce(int usable_cores) const {
  console_.say(
      text(group_text(options_.workers, options_.servers, options_.evaluator ? 1 : 0), " on ",
           usable_cores, usable_cores == 1 ? " core: " : " cores: ", joined(environment_.threads),
           options_.servers == 0 ? " for each." : " for each worker, one thread for each server."));
  if (!environment_.removed.empty())
    console_.say(text("hidden from the workers, whose group is this launcher's: ",
                      joined(environment_.removed), "."));
}

void LaunchProcesses::start_again(int rank) { start(make(LaunchRole::worker, rank), -1); }

std::vector<LaunchedWorker*> LaunchProcesses::reap() {
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

}  // namespace troupe
