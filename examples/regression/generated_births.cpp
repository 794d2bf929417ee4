#include "examples/regression/generated_births.h"

#include <algorithm>
#include <array>

#include "troupe/data/split_mix.h"

namespace births {
namespace {

using troupe::detail::SplitMix;

constexpr std::int64_t kUnit = 65536;  // 1 in fixed-point numbers

std::int64_t below(SplitMix& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

/// Mean 0, standard deviation kUnit: twelve uniform numbers, each of variance kUnit^2 / 12.
std::int64_t normal(SplitMix& random) {
  std::int64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += below(random, kUnit);
  return sum - 6 * kUnit;
}

constexpr int kFirstWeek = 24;
constexpr int kEarliestWeek = 15;
// Out of 1000 single births, those of week 24, 25, ... 43.
constexpr std::array<int, 20> kBirthsByWeek = {3,  3,  4,  4,   5,   6,   7,   9,  12, 16,
                                               24, 38, 65, 115, 195, 225, 160, 75, 26, 8};
// Out of 1000 births, single ones, twins, ...; more of the rare ones than in life, to learn from.
constexpr std::array<int, kMostPlural> kBirthsByPlurality = {930, 50, 15, 4, 1};

/// 0, 1, ... as often as `per_thousand` says.
template <std::size_t N>
int choose(const std::array<int, N>& per_thousand, SplitMix& random) {
  auto left = below(random, 1000);
  int choice = 0;
  while (left >= per_thousand[static_cast<std::size_t>(choice)]) {
    left -= per_thousand[static_cast<std::size_t>(choice++)];
  }
  return choice;
}

/// Thousandths of a pound: slow, fast, then slow growth by week; less for girls, for each further
/// child, and for mothers far from 31 years. What remains is noise of 8 percent.
std::int64_t weight(const Birth& birth, SplitMix& random) {
  const std::int64_t week = birth.gestation_weeks;
  std::int64_t by_week = week < 30 ? 250 * (week - 17) : 3250 + 500 * (week - 30);
  if (week > 37) by_week = 6750 + 350 * (week - 37) - 25 * (week - 37) * (week - 37);
  std::int64_t mean = std::max<std::int64_t>(by_week, 700);
  mean = mean * (birth.is_male == 1 ? 102 : 98) / 100;
  mean = mean * (109 - 9 * birth.plurality) / 100;
  const std::int64_t years = birth.mother_age - 31;
  mean -= mean * years * years / 4000;
  return std::max<std::int64_t>(mean + mean * 8 * normal(random) / (100 * kUnit), 500);
}

Birth draw(SplitMix& random) {
  Birth birth;
  birth.is_male = below(random, 1000) < 512 ? 1 : 0;
  birth.mother_age =
      14 + static_cast<int>(below(random, 12) + below(random, 12) + below(random, 12));
  birth.plurality = 1 + choose(kBirthsByPlurality, random);
  birth.gestation_weeks = std::max(
      kFirstWeek + choose(kBirthsByWeek, random) - 2 * (birth.plurality - 1), kEarliestWeek);
  birth.weight_pounds = static_cast<double>(weight(birth, random)) / 1000;
  return birth;
}

}  // namespace

std::vector<Birth> generate(std::int64_t count, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<Birth> births;
  for (std::int64_t i = 0; i < count; ++i) births.push_back(draw(random));
  return births;
}

}  // namespace births
