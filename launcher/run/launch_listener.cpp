#include "troupe/launcher/run/launch_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_options.h"

namespace troupe {
using boost::asio::ip::tcp;

LaunchListener::LaunchListener(const boost::asio::ip::address& address) {
  tcp::endpoint endpoint(address, 0);
  socklen_t length = static_cast<socklen_t>(endpoint.capacity());
  fd_ = socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || bind(fd_, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      listen(fd_, kMaxLocalWorkers) != 0 || getsockname(fd_, endpoint.data(), &length) != 0) {
    const int reason = errno;
    close();
    throw EnvironmentError(
        text("cannot listen on ", address.to_string(), ": ", std::strerror(reason), "."),
        address.is_loopback() ? "bring the loopback interface up; `troupe doctor` shows it."
                              : "check that the address still belongs to this machine.");
  }
  port_ = endpoint.port();
}

void LaunchListener::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace troupe
