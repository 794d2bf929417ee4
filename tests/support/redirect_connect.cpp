// To be preloaded (LD_PRELOAD) by a program under test: its connections to the first port of
// TROUPE_TEST_REDIRECT=FROM:TO are made to the second one.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tests/support/redirected_connect.h"

namespace {

using troupe::testing::RedirectedConnect;

[[gnu::constructor]] void redirect() {
  const char* const ports = std::getenv("TROUPE_TEST_REDIRECT");
  unsigned from = 0;
  unsigned to = 0;
  if (ports == nullptr || std::sscanf(ports, "%u:%u", &from, &to) != 2) return;
  static const RedirectedConnect redirected(static_cast<std::uint16_t>(from),
                                            static_cast<std::uint16_t>(to));
}

}  // namespace
