#include "examples/regression/births.h"

#include <algorithm>
#include <array>
#include <variant>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/csv.h"
#include "troupe/data/split_mix.h"

namespace births {
namespace {

/// The limits are those of a typing error.
void check(const std::filesystem::path& path, std::size_t birth, const char* column, double value,
           double least, double most) {
  if (value >= least && value <= most) return;
  throw troupe::DataError(troupe::text("'", path.string(), "' birth ", birth, " has ", column, " ",
                                       value, ", expected ", least, " to ", most, "."),
                          "correct the number, or leave the birth out.");
}

// Bit-identical on every machine: integers only, up to the last division by 1000.

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

std::vector<Birth> read_csv(const std::filesystem::path& path) {
  using namespace troupe;
  const CsvTable table = troupe::read_csv(
      path,
      {{csv_real("weight_pounds")},
       {csv_category("is_male", {"0", "1"}), csv_integer("mother_age"),
        csv_category("plurality", {"1", "2", "3", "4", "5"}), csv_integer("gestation_weeks")}});
  const auto* number = std::get<std::vector<std::int64_t>>(table.fields[1]).data();
  std::vector<Birth> births;
  for (const float weight : std::get<std::vector<float>>(table.fields[0])) {
    const std::size_t birth = births.size() + 1;
    check(path, birth, "weight_pounds", weight, 0.2, 30);
    check(path, birth, "mother_age", static_cast<double>(number[1]), 10, 70);
    check(path, birth, "gestation_weeks", static_cast<double>(number[3]), 15, 50);
    births.push_back({weight, static_cast<int>(number[0]), static_cast<int>(number[1]),
                      1 + static_cast<int>(number[2]), static_cast<int>(number[3])});
    number += 4;
  }
  return births;
}

std::vector<Birth> generate(std::int64_t count, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<Birth> births;
  for (std::int64_t i = 0; i < count; ++i) births.push_back(draw(random));
  return births;
}

}  // namespace births
