#include "troupe/distributed/net/address.h"

#include "tests/support/test_prelude.h"

namespace address_test {

TEST_SUITE("net") {
  TEST_CASE("address: an IPv6 literal is written in brackets") {
    CHECK(troupe::to_text("::1", 2222) == "[::1]:2222");
    CHECK(troupe::to_text("127.0.0.1", 2222) == "127.0.0.1:2222");
  }
}

}  // namespace address_test
