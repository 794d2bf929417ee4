// One launched program: found, started with its own process group and environment, its end told.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "troupe/cli/cluster/cluster_spec.h"
#include "troupe/core/unique_fd.h"

namespace troupe {

/// Both ends of a pipe, the reader's first, closed in children.  Throws: EnvironmentError.
[[nodiscard]] std::array<UniqueFd, 2> make_pipe();
/// Both ends of a line for messages that stay apart, closed in children.  Throws: EnvironmentError.
[[nodiscard]] std::array<UniqueFd, 2> make_message_line();

/// Path of the file that runs when a shell is given `name`: itself if it has a slash, else the
/// first executable in `search_path` (PATH). Throws: ConfigError (no such file, a directory, not
/// executable).
[[nodiscard]] std::string find_program(const std::string& name, const std::string& search_path);

/// What a child is started with; its stdin is /dev/null. The descriptors are the child's ends; the
/// caller closes its copies.
struct ChildStart {
  std::string program;               // path
  std::vector<std::string> command;  // argv
  const Environment* environment = nullptr;
  int out_fd = -1;             // becomes stdout
  int err_fd = -1;             // becomes stderr
  std::vector<int> inherited;  // stay open under their numbers; -1: none
};

/// Starts it as leader of a new process group, with the default handling of all signals (an ignored
/// SIGHUP stays ignored: nohup), and SIGKILL the moment the calling thread ends. Blocks: until the
/// program has replaced the child's image. Throws: ConfigError if the system refuses to execute it,
/// EnvironmentError if it cannot fork.
[[nodiscard]] pid_t start_child(const ChildStart& start);

/// How a child ended.
struct ChildEnd {
  int code = 0;    // 128 + signal if one killed it
  int signal = 0;  // 0: it exited
  /// By its last line another process failed, and it stops with that one's exit code.
  bool is_echo = false;
  [[nodiscard]] bool failed() const { return code != 0; }
};

/// Whether training may go on without a worker that ended so: a signal killed it, or it lost
/// others.
[[nodiscard]] bool is_loss(const ChildEnd& end);

/// "exited with code 3" or "was killed by signal 9 (Killed)".
[[nodiscard]] std::string describe(const ChildEnd& end);

}  // namespace troupe
