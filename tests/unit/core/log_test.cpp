#include "troupe/core/log.h"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
    // What is not UTF-8: alone, begun and not ended, and too long.
    CHECK(troupe::detail::log_line("a\xa2z \xc3\xa4 \xe2\x82") ==
          "a\xef\xbf\xbdz \xc3\xa4 \xef\xbf\xbd");
    CHECK(troupe::detail::log_line("\xff").size() == 3);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("log: a sink has the lines instead of stderr, and may fail") {
    const troupe::testing::CapturedLog log;
    std::vector<std::pair<troupe::LogLevel, std::string>> lines;
    troupe::set_log_sink([&](troupe::LogLevel level, std::string_view message) {
      lines.emplace_back(level, message);
      if (message == "full") throw std::runtime_error("no room");
    });
    troupe::log_warning("a\nb");
    troupe::log_debug("below the level");
    troupe::log_info("full");
    troupe::set_log_sink({});
    troupe::log_info("to stderr");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == std::pair(troupe::LogLevel::warning, std::string("a b")));
    CHECK(!log.has("a b"));
    CHECK(log.has("to stderr"));
  }
}

}  // namespace log_test
