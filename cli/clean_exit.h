// CleanExit: how code within run_main() ends the program.
#pragma once

#include "troupe/core/failure.h"

namespace troupe::detail {

/// Ends the program with `code` and no message: the requested output was printed already. Not a
/// std::exception, so that no handler on the way treats it as a failure.
struct CleanExit : ControlFlow {
  explicit CleanExit(int exit_code = 0) : code(exit_code) {}
  int code;
};

}  // namespace troupe::detail
