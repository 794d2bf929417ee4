// IoResult: outcome of one attempt to move bytes without blocking.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace troupe {

struct IoResult {
  enum class State { moved, would_block, closed };
  State state = State::would_block;
  std::size_t bytes = 0;  // with moved
  int error = 0;          // with closed: errno, 0 for an orderly end
};

/// Of what send(2), recv(2) or one of their kind has just returned.
[[nodiscard]] IoResult result_of_call(ssize_t returned) noexcept;

/// "connection closed", or what else ended it.
[[nodiscard]] std::string why_closed(int error);

}  // namespace troupe
