#include "troupe/train/loss_watch.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/test_prelude.h"

namespace {

bool diverged(const std::vector<double>& losses) {
  troupe::detail::LossWatch watch;
  for (const double loss : losses) watch.add(loss);
  return watch.has_diverged();
}

/// `first`, a rise to `top` for `rise` steps, then `last`; `steps` in all.
std::vector<double> risen(double first, double top, std::size_t rise, double last,
                          std::size_t steps = 300) {
  std::vector<double> losses(steps, last);
  losses[0] = first;
  for (std::size_t i = 1; i <= rise; ++i) losses[i] = top;
  return losses;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("loss watch: a loss that rose and ends where it started has diverged") {
    CHECK(diverged(risen(2.30, 20, 10, 2.30)));
    CHECK(diverged(risen(2.32, 20, 10, 2.30)));  // a first batch is a sample
    CHECK(diverged(risen(2.30, 20, 10, 5)));
    auto at_once = risen(2.29, 5.5, 1, 2.31);
    at_once[2] = 126;
    CHECK(diverged(at_once));
    auto late = risen(2.30, 20, 10, 2.30);
    for (std::size_t i = 1; i < 150; ++i) late[i] = 0.1;
    for (std::size_t i = 150; i < 160; ++i) late[i] = 20;
    CHECK(diverged(late));
  }

  TEST_CASE("loss watch: what may be honest has not diverged") {
    CHECK_FALSE(diverged({}));
    CHECK_FALSE(diverged(risen(2.30, 20, 10, 2.30, 199)));  // too short to say
    CHECK_FALSE(diverged(risen(2.30, 20, 10, 2.25)));       // it learns, though slowly
    CHECK_FALSE(diverged(risen(2.30, 20, 7, 2.30)));        // above the end, but not ten times
    CHECK_FALSE(diverged(risen(2.30, 4.5, 10, 2.30)));
    CHECK_FALSE(diverged(std::vector<double>(300, 0.05)));  // nothing left to learn
    CHECK_FALSE(diverged(risen(2.30, 100, 1, 2.30)));       // one bad batch
    auto sign = risen(2.30, 20, 10, 2.30);
    sign[200] = -0.01;  // a loss without a lower limit
    CHECK_FALSE(diverged(sign));
    std::vector<double> rising;
    for (int i = 1; i <= 300; ++i) rising.push_back(0.1 * i);  // its scale changes
    CHECK_FALSE(diverged(rising));
  }

  TEST_CASE("loss watch: losses that only scatter never look diverged, however wildly they do") {
    std::mt19937 random(1);
    for (const double width : {0.1, 1.0, 3.0}) {
      std::lognormal_distribution<double> scatter(0, width);
      for (int run = 0; run < 200; ++run) {
        std::vector<double> losses(1000);
        for (double& loss : losses) loss = scatter(random);
        CHECK_FALSE(diverged(losses));
      }
    }
  }
}
