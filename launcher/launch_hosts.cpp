#include "launcher/launch_hosts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cluster/address.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "core/unique_fd.h"
#include "core/version.h"
#include "launcher/launch_agent.h"
#include "launcher/launch_environment.h"
#include "launcher/launch_guard.h"
#include "launcher/launch_nodes.h"
#include "launcher/launch_processes.h"
#include "launcher/launch_report.h"
#include "launcher/launch_secret.h"
#include "launcher/launch_signals.h"
#include "launcher/launch_ssh.h"
#include "net/timer.h"

namespace troupe {
namespace {

constexpr int kSshFailed = 255;  // ssh(1): an error occurred
constexpr std::chrono::milliseconds kAbandonLimit{2'000};
constexpr std::chrono::milliseconds kRetryPause{5'000};  // of a lost host of an elastic group
// Beside the grace period: for the other end to notice and to say so.
constexpr std::chrono::milliseconds kAgentLimit{2'000};
// They decide which kernels LibTorch, oneDNN, OpenBLAS, MKL, BLIS and cuBLAS take, and so the bits:
// a command must train on several hosts what it trains here.
constexpr const char* kKernelChoices[] = {"ATEN_CPU_CAPABILITY",
                                          "ONEDNN_MAX_CPU_ISA",
                                          "DNNL_MAX_CPU_ISA",
                                          "OPENBLAS_CORETYPE",
                                          "MKL_CBWR",
                                          "MKL_ENABLE_INSTRUCTIONS",
                                          "BLIS_ARCH_TYPE",
                                          "CUBLAS_WORKSPACE_CONFIG",
                                          "NVIDIA_TF32_OVERRIDE"};

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

class LaunchHosts {
 public:
  explicit LaunchHosts(const LaunchOptions& options);
  [[nodiscard]] int run();

 private:
  struct Host {
    std::unique_ptr<LaunchedWorker> ssh;
    UniqueFd orders;  // its stdin
    bool has_answered = false;
    bool is_told = false;                                        // what to do
    bool was_there = false;                                      // it has answered once
    std::unique_ptr<boost::asio::steady_timer> pause = nullptr;  // before it is looked for again
  };
  void start(int node);
  void on_request(int number);
  [[nodiscard]] std::optional<std::string> on_line(int node, std::string_view line);
  void on_greeting(int node, const AgentGreeting& greeting);
  void tell_start(int node);
  void beat();
  void send(Host& host, const std::string& line);
  void on_children();
  void on_host_end(int node, const ChildEnd& end);
  void look_again(int node, const ChildEnd& end);
  void fail(const std::string& cause, const std::string& fix, int exit_code);
  void end_all(std::chrono::milliseconds limit);
  void finish_if_all_ended();
  [[nodiscard]] const std::string& name_of(int node) const {
    return options_.remote.hosts[static_cast<std::size_t>(node)].name;
  }
  [[nodiscard]] Host& host(int node) { return hosts_[static_cast<std::size_t>(node)]; }

  const LaunchOptions& options_;
  LaunchGuard guard_;  // first: it must not inherit what the others open
  boost::asio::io_context io_{1};
  LaunchConsole console_{io_, [this](LaunchConsole::Written written) {
                           for (const auto& process : processes()) process->resume();
                           if (written == LaunchConsole::Written::all && is_finished_) io_.stop();
                         }};
  LaunchSignals signals_{io_, [this] { on_children(); },
                         [this](int number) { on_request(number); }};
  boost::asio::steady_timer beat_{io_};
  boost::asio::steady_timer limit_{io_};
  AgentStart start_;
  std::string ssh_;  // path
  std::vector<Host> hosts_;
  std::optional<int> exit_code_;
  int signals_seen_ = 0;
  bool is_group_known_ = false;  // where node 0 listens
  bool is_finished_ = false;

  [[nodiscard]] std::vector<LaunchedWorker*> processes() const {
    std::vector<LaunchedWorker*> all;
    for (const Host& each : hosts_)
      if (each.ssh) all.push_back(each.ssh.get());
    return all;
  }
};

LaunchHosts::LaunchHosts(const LaunchOptions& options) : options_(options) {
  const Environment own = process_environment();
  const auto path = own.find("PATH");
  ssh_ = find_program(options.remote.ssh[0],
                      path == own.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second);
  start_.secret = launch_secret(options.secret_file, own);
  start_.environment = exported(own, options.remote.exports);
  start_.rendezvous = options.node.rendezvous.host.empty()
                          ? Endpoint{address_of(options.remote.hosts[0]), 0}
                          : options.node.rendezvous;
  hosts_.resize(options.remote.hosts.size());
}

int LaunchHosts::run() {
  signals_.start();
  std::vector<std::string> names;
  for (const HostSlots& slots : options_.remote.hosts)
    names.push_back(text(slots.name, " (", slots.workers, ")"));
  console_.say(text("workers on ", names.size(),
                    names.size() == 1 ? " host: " : " hosts: ", join(names), "."));
  for (int node = 0; node < static_cast<int>(hosts_.size()); ++node) start(node);
  tell_start(0);
  beat();
  io_.run();
  return exit_code_.value_or(kExitPeerLost);
}

void LaunchHosts::start(int node) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw EnvironmentError(text("cannot make a pipe: ", std::strerror(errno), "."),
                           "raise the limit of open files (ulimit -n) or name fewer hosts.");
  const UniqueFd theirs(ends[0]);
  host(node).orders = UniqueFd(ends[1]);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);  // NOLINT: POSIX is variadic
  LaunchedWorker::Outlets outlets{
      &console_.out(), &console_.err(), [this] { console_.flush(); },
      [this] { finish_if_all_ended(); },
      [this, node](std::string_view line) { return on_line(node, line); }};
  host(node).ssh =
      std::make_unique<LaunchedWorker>(io_, LaunchRole::node, node, "", "", std::move(outlets));
  const Environment own = process_environment();
  const std::string tool = options_.remote.troupe.empty() ? own_path() : options_.remote.troupe;
  ChildStart child;
  child.program = ssh_;
  child.command = ssh_command(options_.remote.ssh, name_of(node),
                              remote_command(std::filesystem::current_path().string(), tool,
                                             agent_arguments(options_, node)));
  child.environment = &own;
  child.in_fd = theirs.get();
  host(node).ssh->start(child);
  guard_.watch(host(node).ssh->pid());
}

void LaunchHosts::on_request(int number) {
  if (is_finished_ || ++signals_seen_ > 2) return io_.stop();
  if (signals_seen_ == 1)
    console_.say(text(number == SIGINT ? "interrupted" : text("got signal ", number),
                      "; the hosts stop", number == SIGINT ? " (once more: at once)." : "."));
  // Of an elastic group, node 0 tells the others; by itself each would leave.
  const bool by_node_0 = options_.min_workers > 0 && signals_seen_ == 1;
  for (Host& each : hosts_)
    if (each.is_told && (&each == &host(0) || !by_node_0)) send(each, encode(AgentOrder{number}));
  if (!host(0).has_answered) return fail("", "", kExitSignal + number);
  end_all(signals_seen_ == 1 ? options_.grace + kAgentLimit : kAbandonLimit);
}

/// Agents' and ssh's own lines get the host's name; those of workers have theirs already.
std::optional<std::string> LaunchHosts::on_line(int node, std::string_view line) {
  if (const auto greeting = decode_agent_greeting(line)) {
    on_greeting(node, *greeting);
    return std::nullopt;
  }
  const bool is_workers = !line.empty() && line.front() == '[';
  const bool is_plain = options_.prefix == LaunchOptions::Prefix::none;
  return is_workers || is_plain ? std::string(line) : text("[", name_of(node), "] ", line);
}

void LaunchHosts::on_greeting(int node, const AgentGreeting& greeting) {
  host(node).has_answered = host(node).was_there = true;
  if (greeting.version != kVersion)
    return fail(text("host ", name_of(node), " has version ", greeting.version,
                     " of Troupe, this machine ", kVersion, "."),
                "install the same on all hosts, or name another by --troupe PATH.", kExitUsage);
  if (node != 0 || exit_code_) return;
  is_group_known_ = true;
  if (hosts_.size() > 1) start_.rendezvous = parse_address(greeting.rendezvous, "the rendezvous");
  for (int other = 1; other < static_cast<int>(hosts_.size()); ++other) tell_start(other);
}

void LaunchHosts::tell_start(int node) {
  send(host(node), encode(start_));
  host(node).is_told = true;
}

void LaunchHosts::beat() {
  for (Host& each : hosts_)
    if (each.is_told) send(each, encode(AgentOrder{}));
  run_after(beat_, kAgentBeat, [this] { beat(); });
}

/// What ssh does not take is lost: it has not taken anything for longer than an agent waits.
void LaunchHosts::send(Host& host, const std::string& line) {
  if (host.orders.get() < 0) return;
  if (write(host.orders.get(), line.data(), line.size()) < 0 && errno != EAGAIN)
    host.orders = UniqueFd();
}

void LaunchHosts::on_children() {
  for (LaunchedWorker* const ended : reap_ended(processes(), guard_))
    on_host_end(ended->index(), *ended->end());
  finish_if_all_ended();
}

void LaunchHosts::on_host_end(int node, const ChildEnd& end) {
  const std::string name = name_of(node);
  if (exit_code_) return;
  const bool others_go_on =
      options_.min_workers > 0 && node > 0 && is_group_known_ && host(node).was_there;
  if (others_go_on && end.failed() && signals_seen_ == 0) return look_again(node, end);
  if (!host(node).has_answered) {
    const std::string cannot = text("nothing runs on host ", name, ": ");
    if (end.code == kSshFailed)
      return fail(
          text(cannot, "ssh failed."),
          text("see its message above; `", join(options_.remote.ssh, " "), " ", name,
               " true` has to work without a password (--ssh \"ssh -p 2222\" adds options)."),
          kExitEnvironment);
    if (end.code == kNoDirectory)
      return fail(
          text(cannot, "it has no directory ", std::filesystem::current_path().string(), "."),
          "make it there, with the program and its files, or share it.", kExitEnvironment);
    if (end.code == kNoProgram)
      return fail(text(cannot, "it has no program ",
                       options_.remote.troupe.empty() ? own_path() : options_.remote.troupe, "."),
                  "install Troupe there at the same path, or say where it is by --troupe PATH.",
                  kExitEnvironment);
    return fail(text(cannot, "troupe ", describe(end), "."), "see its message above.",
                end.failed() ? end.code : kExitFailed);
  }
  if (node == 0) {
    exit_code_ = end.code == kSshFailed ? kExitPeerLost : end.code;
    if (end.code == kSshFailed) console_.say(text("the connection to host ", name, " broke."));
    // The others have been told; where one has been lost, it hears nothing any more.
    return end_all(*exit_code_ == kExitPeerLost ? kLostNodeLimit : options_.grace + kAgentLimit);
  }
  if (!end.failed()) return;
  if (end.code == kSshFailed)
    console_.say(text("the connection to host ", name, " broke; the group ends."));
  exit_code_ = end.code == kSshFailed ? kExitPeerLost : end.code;
  // Node 0 knows, too, and ends the others, unless that node had not come to it yet.
  run_after(limit_, kAbandonLimit, [this] {
    for (Host& each : hosts_) each.orders = UniqueFd();
    end_all(options_.grace + kAgentLimit);
  });
}

/// The group is elastic, and node 0 decides whether it goes on.
void LaunchHosts::look_again(int node, const ChildEnd& end) {
  Host& lost = host(node);
  if (lost.has_answered)
    console_.say(text(end.code == kSshFailed ? "the connection to host " : "the launcher on host ",
                      name_of(node), end.code == kSshFailed ? " broke" : text(" ", describe(end)),
                      "; it is looked for again every ", seconds_text(Seconds(kRetryPause).count()),
                      "."));
  lost.has_answered = lost.is_told = false;
  lost.orders = UniqueFd();
  lost.pause = std::make_unique<boost::asio::steady_timer>(io_);
  run_after(*lost.pause, kRetryPause, [this, node] {
    if (exit_code_ || signals_seen_ > 0) return;
    start(node);
    tell_start(node);
  });
}

/// Nobody is to go on.
void LaunchHosts::fail(const std::string& cause, const std::string& fix, int exit_code) {
  if (exit_code_) return;
  exit_code_ = exit_code;
  if (!cause.empty()) console_.say(text(cause, " Fix: ", fix));
  for (Host& each : hosts_) each.orders = UniqueFd();
  end_all(kAbandonLimit);
}

/// Whoever still runs after `limit` is not waited for: its agent notices that by itself.
void LaunchHosts::end_all(std::chrono::milliseconds limit) {
  run_after(limit_, limit, [this] {
    for (LaunchedWorker* const process : processes()) {
      if (!process->running()) continue;
      console_.say(text("host ", name_of(process->index()), " does not answer; not waited for."));
      process->signal(SIGKILL);
    }
  });
}

void LaunchHosts::finish_if_all_ended() {
  for (const LaunchedWorker* const process : processes())
    if (process->running() || process->streams_open()) return;
  if (std::exchange(is_finished_, true)) return;
  console_.flush();
}

}  // namespace

int launch_on_hosts(const LaunchOptions& options) { return LaunchHosts(options).run(); }

std::vector<std::string> agent_arguments(const LaunchOptions& options, int node) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return text(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  };
  const auto& hosts = options.remote.hosts;
  std::vector<std::string> words = {"run",
                                    "--agent",
                                    "--nodes",
                                    text(hosts.size()),
                                    "--node",
                                    text(node),
                                    "--workers",
                                    text(hosts[static_cast<std::size_t>(node)].workers),
                                    "--grace",
                                    seconds(options.grace),
                                    "--start-timeout",
                                    seconds(options.node.start_timeout)};
  const auto add = [&words](const char* name, const std::string& value) {
    words.emplace_back(name);
    words.push_back(value);
  };
  if (options.max_restarts > 0) add("--max-restarts", text(options.max_restarts));
  if (options.min_workers > 0) {
    add("--min-workers", text(options.min_workers));
    add("--regroup-secs", seconds(options.regroup_limit));
  }
  if (options.threads > 0) add("--threads", text(options.threads));
  if (!options.log_dir.empty()) add("--log-dir", options.log_dir.string());
  if (options.evaluator) words.emplace_back("--evaluator");
  if (options.prefix == LaunchOptions::Prefix::none) words.emplace_back("--no-prefix");
  words.emplace_back("--");
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

Environment exported(const Environment& own, const std::vector<std::string>& names) {
  Environment result;
  for (const auto& [name, value] : own) {
    const bool is_setting = name.rfind("TROUPE_", 0) == 0 && !names_a_cluster(name);
    if (is_setting && name.rfind("TROUPE_SECRET_", 0) != 0) result[name] = value;
  }
  for (const char* name : kKernelChoices)
    if (const auto found = own.find(name); found != own.end()) result[name] = found->second;
  for (const std::string& name : names) {
    const auto found = own.find(name);
    if (found == own.end())
      throw ConfigError(text("--export ", name, ": no variable of this name is set."),
                        "set it, or leave it out.");
    result[name] = found->second;
  }
  return result;
}

}  // namespace troupe
