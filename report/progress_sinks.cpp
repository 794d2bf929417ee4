#include "troupe/report/progress_sinks.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "troupe/core/numbers.h"
#include "troupe/core/terminal.h"
#include "troupe/report/progress_bar.h"

namespace troupe {
namespace {

bool keeps_messages(int fd) {
  int kind = 0;
  socklen_t size = sizeof kind;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
}

/// -1: the variable is unset, or what it names is no launcher's.
int launcher_descriptor() {
  const char* const value = std::getenv(kProgressDescriptorVariable);
  if (value == nullptr) return -1;
  const auto fd = parse_integer<int>(value);
  return fd && *fd > 2 && keeps_messages(*fd) ? *fd : -1;
}

}  // namespace

ProgressSink terminal_sink() {
  if (!terminal_size(STDERR_FILENO)) return nullptr;
  const std::shared_ptr<void> eraser(nullptr, [](void*) { set_status_lines({}); });
  return [eraser](const Progress& progress) {
    const auto size = terminal_size(STDERR_FILENO);
    if (size) set_status_lines(progress_block(progress, {}, {size->columns, wants_colors()}));
  };
}

ProgressSink launcher_sink() {
  const int fd = launcher_descriptor();
  if (fd < 0) return nullptr;
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // NOLINT: POSIX is variadic
  return [fd](const Progress& progress) {
    const std::string line = to_line(progress);
    // What is lost is replaced by the next one; nobody reads on after the launcher's end.
    [[maybe_unused]] const ssize_t sent =
        send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  };
}

}  // namespace troupe
