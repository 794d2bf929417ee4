// Whether this machine has pseudo terminals: a container or a chroot may lack /dev/pts.
#pragma once

#include <pty.h>
#include <unistd.h>

#include "tests/support/test_prelude.h"

namespace troupe::testing {

/// False, with a message in the test's output, where a test of a terminal cannot run.
inline bool has_terminals() {
  int ends[2] = {-1, -1};
  if (::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) {
    MESSAGE("skipped: no pseudo terminal can be opened here");
    return false;
  }
  for (const int end : ends) ::close(end);
  return true;
}

}  // namespace troupe::testing
