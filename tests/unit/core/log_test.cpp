#include "troupe/core/log.h"

#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/test_prelude.h"

namespace log_test {

TEST_SUITE("unit") {
  TEST_CASE("log: nothing that a terminal would obey, and one line whatever a peer says") {
    const troupe::testing::CapturedLog log;
    troupe::log_info("a\x1b[2K\rb\nc\x7f", "d\xc2\x9b", "31m \xc3\xa4");
    const std::string line = log.text();
    CHECK(
        log.has("a [2K b c d\xc2\xa0"
                "31m \xc3\xa4"));
    CHECK(line.find('\n') == line.size() - 1);
    for (const char c : line.substr(0, line.size() - 1)) {
      CHECK(static_cast<unsigned char>(c) >= 0x20);
    }
  }
}

}  // namespace log_test
