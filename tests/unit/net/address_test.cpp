#include "troupe/distributed/net/address.h"

#include "tests/support/test_prelude.h"

namespace address_test {

TEST_SUITE("net") {
  TEST_CASE("address: only what cannot leave the machine is loopback") {
    for (const char* host : {"localhost", "127.0.0.1", "127.3.2.1", "::1"}) {
      CAPTURE(host);
      CHECK(troupe::is_loopback_host(host));
    }
    for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "worker-0", "127.1",
                             "localhost.example", "fe80::1"}) {
      CAPTURE(host);
      CHECK_FALSE(troupe::is_loopback_host(host));
    }
  }

  TEST_CASE("address: an IPv6 literal is written in brackets") {
    CHECK(troupe::to_text("::1", 2222) == "[::1]:2222");
    CHECK(troupe::to_text("127.0.0.1", 2222) == "127.0.0.1:2222");
  }
}

}  // namespace address_test
