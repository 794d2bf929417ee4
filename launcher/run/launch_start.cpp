#include "troupe/launcher/run/launch_start.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/launcher/run/launch_options.h"

namespace troupe {

LaunchListener::LaunchListener(const boost::asio::ip::address& address) {
  boost::asio::ip::tcp::endpoint endpoint(address, 0);
  socklen_t length = static_cast<socklen_t>(endpoint.capacity());
  fd_.reset(socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd() < 0 || bind(fd(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      listen(fd(), kMaxLocalWorkers) != 0 || getsockname(fd(), endpoint.data(), &length) != 0) {
    throw EnvironmentError(
        text("cannot listen on ", address.to_string(), ": ", std::strerror(errno), "."),
        address.is_loopback() ? "bring the loopback interface up; `troupe doctor` shows it."
                              : "check that the address still belongs to this machine.");
  }
  port_ = endpoint.port();
}

}  // namespace troupe
