#include "troupe/distributed/net/io_result.h"

#include <cerrno>
#include <system_error>

namespace troupe {

IoResult result_of_call(ssize_t returned) noexcept {
  using State = IoResult::State;
  if (returned > 0) return {State::moved, static_cast<std::size_t>(returned), 0};
  if (returned == 0) return {State::closed, 0, 0};
  const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return again ? IoResult{State::would_block, 0, 0} : IoResult{State::closed, 0, errno};
}

std::string why_closed(int error) {
  if (error == 0) return "connection closed";
  if (error == EBADMSG)
    return "what came is not what the other end sent: it was changed on the way";
  return std::generic_category().message(error);
}

}  // namespace troupe
