#include "bench/scale/cost_model.h"

#include "tests/support/test_prelude.h"

namespace cost_model_test {

using namespace troupe::bench;  // NOLINT: a test

TEST_SUITE("bench") {
  TEST_CASE("cost model: ring, direct and doubling as in the literature") {
    const Parameters link{1e-3, 1e6, 0};
    CHECK(seconds_of(ring_cost(8, 800'000), link) == doctest::Approx(14e-3 + 1.4));
    CHECK(seconds_of(direct_cost(8, 800'000), link) == doctest::Approx(2e-3 + 1.4));
    CHECK(seconds_of(doubling_cost(8, 1000), link) == doctest::Approx(6e-3));
    CHECK(seconds_of(doubling_cost(6, 1000), link) == doctest::Approx(6e-3));
    CHECK(seconds_of(two_level_cost(8, 4, 800'000), link) == doctest::Approx(4e-3 + 1.4));
    CHECK(two_level_cost(64, 8, 0).messages == 28);
    CHECK(barrier_cost(5).alphas == 3);
  }
  TEST_CASE("cost model: a message's cost to its sender counts for the direct exchange") {
    CHECK(seconds_of(direct_cost(4, 0), {0, 0, 1e-3}) == doctest::Approx(6e-3));
  }
  TEST_CASE("cost model: the fit finds the parameters that made the times") {
    const Parameters made{2e-3, 5e6, 0};
    std::vector<Observation> seen;
    for (const int ranks : {8, 64}) {
      for (const Cost& cost : {barrier_cost(ranks), doubling_cost(ranks, 65'536)}) {
        seen.push_back({cost, seconds_of(cost, made)});
      }
    }
    const Parameters found = fit(seen);
    CHECK(found.alpha == doctest::Approx(made.alpha));
    CHECK(found.beta == doctest::Approx(made.beta));
  }
  TEST_CASE("cost model: what the chief sends at a rendezvous grows with the square of the ranks") {
    const double ratio = rendezvous_cost(256).bytes / rendezvous_cost(64).bytes;
    CHECK(ratio > 12);
    CHECK(ratio < 17);
  }
}

}  // namespace cost_model_test
