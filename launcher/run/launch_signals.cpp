#include "troupe/launcher/run/launch_signals.h"

#include <sys/prctl.h>

#include <csignal>
#include <utility>

#include "troupe/core/stop_signal.h"

namespace troupe {

LaunchSignals::LaunchSignals(boost::asio::io_context& io, std::function<void()> on_children,
                             std::function<void(int number)> on_request)
    : signals_(io), on_children_(std::move(on_children)), on_request_(std::move(on_request)) {}

void LaunchSignals::start() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_.add(SIGCHLD);
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  if (!is_ignored(SIGHUP)) signals_.add(SIGHUP);
  wait();
}

void LaunchSignals::wait() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    wait();
    number == SIGCHLD ? on_children_() : request(number);
  });
}

void LaunchSignals::request(int number) {
  const auto now = std::chrono::steady_clock::now();
  if (now - requested_at_ < kSameRequest) return;
  requested_at_ = now;
  on_request_(number);
}

}  // namespace troupe
