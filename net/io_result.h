// IoResult: outcome of one attempt to move bytes without blocking.
#pragma once

#include <cstddef>

namespace troupe {

struct IoResult {
  enum class State { moved, would_block, closed };
  State state = State::would_block;
  std::size_t bytes = 0;  // with moved
  int error = 0;          // with closed: errno, 0 for an orderly end
};

}  // namespace troupe
