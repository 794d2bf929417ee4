#include "troupe/core/pull_range.h"

#include <vector>

#include "tests/support/test_prelude.h"

namespace pull_range_test {

namespace {

/// 1, 2, 3.
class Numbers final : public troupe::detail::PullRange<Numbers, const int> {
 public:
  const int* next() {
    if (number_ == 3) return nullptr;
    ++number_;
    return &number_;
  }

 private:
  int number_ = 0;
};

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("pull_range: every item once, and a loop that is entered again continues") {
    Numbers numbers;
    std::vector<int> seen;
    for (const int& number : numbers) {
      seen.push_back(number);
      if (number == 2) break;
    }
    for (const int& number : numbers) seen.push_back(number);
    for (const int& number : numbers) seen.push_back(number);
    CHECK(seen == std::vector<int>{1, 2, 3});
  }
}

}  // namespace pull_range_test
