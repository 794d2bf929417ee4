#include "troupe/core/output.h"

#include <cerrno>
#include <cstring>
#include <iostream>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {

Reader print_text(const std::string& what) {
  errno = 0;
  std::cout << what << std::flush;
  if (std::cout) return Reader::listens;
  if (errno == EPIPE) return Reader::gone;
  throw EnvironmentError(
      text("standard output cannot be written: ", std::strerror(errno), "."),
      "look for a full disk or a closed descriptor.");
}

}  // namespace troupe::detail
