// Silence: a test that provokes warnings does not print them.
#pragma once

#include "troupe/core/log.h"

namespace troupe::testing {

/// While it lives, only errors are logged; then warnings are again (tests/main.cpp).
class Silence {
 public:
  Silence() { configure_log(LogLevel::error, ""); }
  ~Silence() { configure_log(LogLevel::warning, ""); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

}  // namespace troupe::testing
