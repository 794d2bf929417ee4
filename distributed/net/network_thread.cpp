#include "troupe/distributed/net/network_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"

namespace troupe {

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd() < 0) {
    throw EnvironmentError(text("eventfd failed: ", std::generic_category().message(errno), "."),
                           "raise the limit of open files (ulimit -n).");
  }
}

void WakeEvent::set() noexcept {
  const std::uint64_t one = 1;
  // The counter cannot overflow in practice, and when it is full the event is set already.
  [[maybe_unused]] const auto written = ::write(fd(), &one, sizeof(one));
}

NetworkThread::NetworkThread() : work_(boost::asio::make_work_guard(context_)) {}

NetworkThread::~NetworkThread() { stop(); }

void NetworkThread::start(std::function<void(const std::string&)> on_error) {
  const NoSignals in_thread;
  thread_ = std::thread([this, on_error = std::move(on_error)] {
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception& error) {
        on_error(error.what());
      }
    }
  });
}

void NetworkThread::stop() noexcept {
  work_.reset();
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe
