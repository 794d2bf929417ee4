#include "net/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "core/error.h"
#include "core/text.h"

namespace troupe {

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) {
    throw EnvironmentError(text("eventfd failed: ", std::generic_category().message(errno), "."),
                           "raise the limit of open files (ulimit -n).");
  }
}

WakeEvent::~WakeEvent() { ::close(fd_); }

void WakeEvent::set() noexcept {
  const std::uint64_t one = 1;
  // The counter cannot overflow in practice, and when it is full the event is set already.
  [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
}

}  // namespace troupe
