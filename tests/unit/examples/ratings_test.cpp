#include "examples/embedding/ratings.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/test_prelude.h"

using ratings::generate;
using ratings::Rating;
using ratings::World;

namespace {

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("ratings: the same on every machine") {
    const auto first = generate({1000, 200, 1}, 0, 3);
    REQUIRE(first.size() == 3);
    CHECK(first[0].user == 221);
    CHECK(first[0].item == 27);
    CHECK(std::lround(first[0].stars * 1000) == 1596);
    CHECK(first[2].user == 320);
    CHECK(std::lround(first[2].stars * 1000) == 3990);
  }

  TEST_CASE("ratings: each is a function of world and number") {
    const World world{500, 100, 7};
    const auto all = generate(world, 0, 50);
    const auto tail = generate(world, 40, 10);
    for (std::size_t i = 0; i < tail.size(); ++i) {
      CHECK(tail[i].user == all[40 + i].user);
      CHECK(tail[i].item == all[40 + i].item);
      CHECK(tail[i].stars == all[40 + i].stars);
    }
    CHECK(generate({500, 100, 8}, 0, 1)[0].stars != all[0].stars);
  }

  TEST_CASE("ratings: users alike, items by popularity, stars about 3.5") {
    const World world{100, 50, 1};
    std::vector<double> stars;
    std::int64_t popular = 0;
    for (const Rating& rating : generate(world, 0, 20'000)) {
      REQUIRE(rating.user >= 0);
      REQUIRE(rating.user < 100);
      REQUIRE(rating.item >= 0);
      REQUIRE(rating.item < 50);
      if (rating.item < 10) ++popular;
      stars.push_back(rating.stars);
    }
    CHECK(popular > 9000);  // 1 - 0.8^3 is 0.488
    CHECK(popular < 10'500);
    CHECK(mean_of(stars) == doctest::Approx(3.5).epsilon(0.1));
    CHECK(deviation_of(stars) > 0.7);  // biases 0.42, product 0.72, noise 0.25
    CHECK(deviation_of(stars) < 1.1);
  }

  TEST_CASE("ratings: those of one user and item differ by noise alone") {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> by_pair;
    for (const Rating& rating : generate({4, 4, 1}, 0, 4000)) {
      by_pair[{rating.user, rating.item}].push_back(rating.stars);
    }
    for (const auto& [pair, stars] : by_pair) {
      if (stars.size() < 100) continue;
      CHECK(deviation_of(stars) == doctest::Approx(ratings::kNoise).epsilon(0.25));
    }
  }
}
