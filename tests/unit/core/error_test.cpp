
#include <string>

#include "tests/support/test_prelude.h"
#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace error_test {

TEST_SUITE("core") {
  TEST_CASE("error: what() is the cause, then the fix, in one line") {
    const troupe::ConfigError error("--epochs is 0.", "give a positive number.");
    CHECK(std::string(error.what()) == "--epochs is 0. Fix: give a positive number.");
    CHECK(std::string(error.kind()) == "config");
  }

  TEST_CASE("error: exit codes separate permanent failures from those worth another try") {
    CHECK(troupe::DataError("", "").exit_code() == 1);
    CHECK(troupe::ConfigError("", "").exit_code() == 2);
    CHECK(troupe::EnvironmentError("", "").exit_code() == 3);
    CHECK(troupe::PeerLost("", "").exit_code() == 138);
    CHECK(troupe::TimeoutError("", "").exit_code() == 138);
    CHECK(troupe::RendezvousError("", "").exit_code() == 138);
    CHECK(troupe::PeerFailed("", "", 2).exit_code() == 2);
  }

  TEST_CASE("check: a failure names the expression and both values") {
    const auto fail = [] { TROUPE_CHECK_EQ(1 + 1, 3); };
    CHECK_THROWS_AS(fail(), troupe::InternalError);
    CHECK_THROWS_WITH_AS(fail(), doctest::Contains("1 + 1 == 3 (2 vs 3)"), troupe::InternalError);
  }

  TEST_CASE("text: parts are joined, numbers with a decimal point") {
    CHECK(troupe::text("rank ", 3, ": ", 0.5, " s") == "rank 3: 0.5 s");
  }
}

}  // namespace error_test
