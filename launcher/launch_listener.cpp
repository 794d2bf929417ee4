#include "launcher/launch_listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "launcher/launch.h"

namespace troupe {

LaunchListener::LaunchListener() {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (fd_ < 0 || bind(fd_, generic, length) != 0 || listen(fd_, kMaxLocalWorkers) != 0 ||
      getsockname(fd_, generic, &length) != 0) {
    const int reason = errno;
    close();
    throw EnvironmentError(text("cannot listen on 127.0.0.1: ", std::strerror(reason), "."),
                           "bring the loopback interface up; `troupe doctor` shows it.");
  }
  port_ = ntohs(address.sin_port);
}

void LaunchListener::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace troupe
