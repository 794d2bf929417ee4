// TROUPE_CHECK: states what must hold if our own code is right; a failure is an InternalError that
// shows the place and both values. Never for input: that gets ConfigError or DataError.
#pragma once

#include <string>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {

[[noreturn]] inline void check_failed(const char* file, int line, const std::string& what) {
  throw InternalError(text(file, ":", line, ": check failed: ", what, "."),
                      "this is a bug in Troupe; please report it with the lines above.");
}

}  // namespace troupe::detail

#define TROUPE_CHECK(condition) \
  ((condition) ? void() : ::troupe::detail::check_failed(__FILE__, __LINE__, #condition))

#define TROUPE_CHECK_EQ(a, b)                               \
  (((a) == (b))                                             \
       ? void()                                             \
       : ::troupe::detail::check_failed(__FILE__, __LINE__, \
                                        ::troupe::text(#a " == " #b " (", (a), " vs ", (b), ")")))
