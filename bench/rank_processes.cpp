#include "bench/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "cli/launch_listener.h"
#include "core/deadline.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::bench {
namespace {

// Survivors learn from the group who failed and end by themselves; this is how long they get.
constexpr std::chrono::milliseconds kSurvivorLimit{15'000};

/// A directory that is gone with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw EnvironmentError(
          text("no directory can be made for '", pattern, "': ", std::strerror(errno), "."),
          "set TMPDIR to a directory where this user may write.");
    }
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// This process's environment, but one compute thread and one BLAS thread, and a C library that
/// keeps freed memory: its default gives large tensors back to the system and faults them in again
/// in some steps and not in others, which costs up to twice the step and hides everything else.
std::vector<std::string> environment_of_ranks() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos) {
      variables[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
  }
  variables["OMP_NUM_THREADS"] = "1";
  variables["OPENBLAS_NUM_THREADS"] = "1";
  variables["MALLOC_MMAP_THRESHOLD_"] = "33554432";  // the most that glibc accepts
  variables["MALLOC_TRIM_THRESHOLD_"] = "4294967296";
  variables["MALLOC_TOP_PAD_"] = "33554432";
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(text(name, "=", value));
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// One started rank. Its end is noticed by the end of its stdout.
class RankProcess {
 public:
  RankProcess(std::vector<std::string> words, std::vector<std::string> variables, int inherit_fd) {
    const std::vector<char*> argv = pointers(words);
    const std::vector<char*> envp = pointers(variables);
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) fail_to_start();
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) {
      close(out[0]);
      close(out[1]);
      fail_to_start();
    }
    if (pid_ == 0) {  // only async-signal-safe calls until exec
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(127);
      if (inherit_fd >= 0) fcntl(inherit_fd, F_SETFD, 0);  // NOLINT: POSIX is variadic
      dup2(out[1], STDOUT_FILENO);
      execve(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    close(out[1]);
    out_fd_ = out[0];
  }
  ~RankProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (out_fd_ >= 0) close(out_fd_);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  [[nodiscard]] int out_fd() const { return out_fd_; }  // -1: ended
  [[nodiscard]] const std::string& out() const { return out_; }
  /// As a shell counts it: 128 + number for a signal. Valid after the end.
  [[nodiscard]] int exit_code() const { return exit_code_; }

  /// Takes what is on the pipe; at its end collects the process.
  void read_some() {
    char buffer[65536];
    const ssize_t count = read(out_fd_, buffer, sizeof buffer);
    if (count > 0) out_.append(buffer, static_cast<std::size_t>(count));
    if (count > 0 || (count < 0 && errno == EINTR)) return;
    close(out_fd_);
    out_fd_ = -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  [[noreturn]] static void fail_to_start() {
    throw EnvironmentError(text("a process cannot be started: ", std::strerror(errno), "."),
                           "look at the limits on processes and open files (ulimit -a).");
  }

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int exit_code_ = -1;
  std::string out_;
};

/// Reads from the ranks until all have ended; the rank that failed first, or -1.
int wait_for(std::vector<std::unique_ptr<RankProcess>>& ranks, Deadline deadline) {
  int failed = -1;
  for (;;) {
    std::vector<pollfd> waits;
    std::vector<int> who;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank]->out_fd() < 0) continue;
      waits.push_back({ranks[rank]->out_fd(), POLLIN, 0});
      who.push_back(static_cast<int>(rank));
    }
    if (waits.empty()) return failed;
    if (deadline.expired()) {
      if (failed >= 0) return failed;
      throw TimeoutError(text("rank ", who.front(), " of the benchmark did not end within ",
                              deadline.limit_seconds(), " s."),
                         "run it with fewer --rounds, or on a machine that is less busy.");
    }
    poll(waits.data(), waits.size(), static_cast<int>(deadline.remaining().count()));
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      RankProcess& process = *ranks[static_cast<std::size_t>(who[i])];
      process.read_some();
      if (process.out_fd() >= 0 || process.exit_code() == 0 || failed >= 0) continue;
      failed = who[i];
      deadline = Deadline::in(kSurvivorLimit);
    }
  }
}

}  // namespace

Cluster cluster_of(const RankPlace& place) {
  Cluster cluster;
  cluster.rank = place.rank;
  cluster.members.clear();
  for (int rank = 0; rank < place.count; ++rank) {
    cluster.members.push_back({text("worker/", rank), std::nullopt});
  }
  cluster.members.front().address = Endpoint{"127.0.0.1", place.port};
  cluster.listen_fd = place.listen_fd;
  cluster.origin = "benchmark";
  return cluster;
}

std::string run_ranks(int count, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds limit) {
  const ScratchDirectory scratch;
  LaunchListener listener;
  const std::vector<std::string> variables = environment_of_ranks();
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < count; ++rank) {
    std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const int fd = rank == 0 ? listener.fd() : -1;
    for (const auto& word :
         {text("--rank=", rank), text("--port=", listener.port()), text("--listen-fd=", fd),
          text("--store-file=", scratch.file("gloo"))}) {
      words.push_back(word);
    }
    ranks.push_back(std::make_unique<RankProcess>(words, variables, fd));
  }
  listener.close();
  const int failed = wait_for(ranks, Deadline::in(limit));
  if (failed >= 0) {
    const int code = ranks[static_cast<std::size_t>(failed)]->exit_code();
    throw PeerFailed(text("rank ", failed, " of the benchmark ended with exit code ", code, "."),
                     "see its message above.", code);
  }
  return ranks.front()->out();
}

}  // namespace troupe::bench
