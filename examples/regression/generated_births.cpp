#include "examples/regression/generated_births.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace births {
namespace {

namespace fs = std::filesystem;
using troupe::text;

constexpr std::int64_t kUnit = 65536;  // 1 in the fixed-point numbers of Random

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// [0, bound); uneven by less than bound / 2^64.
  std::int64_t below(std::int64_t bound) {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::int64_t>((x ^ (x >> 31)) % static_cast<std::uint64_t>(bound));
  }
  /// Mean 0, standard deviation kUnit: twelve uniform numbers, each of variance kUnit^2 / 12.
  std::int64_t normal() {
    std::int64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += below(kUnit);
    return sum - 6 * kUnit;
  }

 private:
  std::uint64_t state_;
};

constexpr int kFirstWeek = 24;
constexpr int kEarliestWeek = 15;
// Out of 1000 single births, those of week 24, 25, ... 43.
constexpr std::array<int, 20> kBirthsByWeek = {3,  3,  4,  4,   5,   6,   7,   9,  12, 16,
                                               24, 38, 65, 115, 195, 225, 160, 75, 26, 8};
// Out of 1000 births, single ones, twins, ...; more of the rare ones than in life, to learn from.
constexpr std::array<int, kMostPlural> kBirthsByPlurality = {930, 50, 15, 4, 1};

/// 0, 1, ... as often as `per_thousand` says.
template <std::size_t N>
int choose(const std::array<int, N>& per_thousand, Random& random) {
  auto left = random.below(1000);
  int choice = 0;
  while (left >= per_thousand[static_cast<std::size_t>(choice)]) {
    left -= per_thousand[static_cast<std::size_t>(choice++)];
  }
  return choice;
}

/// Thousandths of a pound: slow, fast, then slow growth by week; less for girls, for each further
/// child, and for mothers far from 31 years. What remains is noise of 8 percent.
std::int64_t weight(const Birth& birth, Random& random) {
  const std::int64_t week = birth.gestation_weeks;
  std::int64_t by_week = week < 30 ? 250 * (week - 17) : 3250 + 500 * (week - 30);
  if (week > 37) by_week = 6750 + 350 * (week - 37) - 25 * (week - 37) * (week - 37);
  std::int64_t mean = std::max<std::int64_t>(by_week, 700);
  mean = mean * (birth.is_male == 1 ? 102 : 98) / 100;
  mean = mean * (109 - 9 * birth.plurality) / 100;
  const std::int64_t years = birth.mother_age - 31;
  mean -= mean * years * years / 4000;
  return std::max<std::int64_t>(mean + mean * 8 * random.normal() / (100 * kUnit), 500);
}

Birth draw(Random& random) {
  Birth birth;
  birth.is_male = random.below(1000) < 512 ? 1 : 0;
  birth.mother_age = 14 + static_cast<int>(random.below(12) + random.below(12) + random.below(12));
  birth.plurality = 1 + choose(kBirthsByPlurality, random);
  birth.gestation_weeks = std::max(
      kFirstWeek + choose(kBirthsByWeek, random) - 2 * (birth.plurality - 1), kEarliestWeek);
  birth.weight_pounds = static_cast<double>(weight(birth, random)) / 1000;
  return birth;
}

[[noreturn]] void fail_to_write(const fs::path& folder, const std::error_code& error) {
  throw troupe::EnvironmentError(
      text("'", folder.string(), "' cannot be written: ", error.message(), "."),
      "name a new folder with --data-dir, where this user may write.");
}

/// Whether both files are there; false: the folder is empty or missing. In this order: another
/// worker's folder may appear in between, and it appears with both files.
bool is_made(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return false;
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error)) return false;
  const bool train = fs::exists(folder / "train.csv", error);
  const bool eval = fs::exists(folder / "eval.csv", error);
  if (train && eval) return true;
  throw troupe::DataError(
      text("'", folder.string(), "' is not a folder with train.csv and eval.csv",
           train  ? ": there is no eval.csv."
           : eval ? ": there is no train.csv."
                  : "."),
      "put both files there, or name an empty or new folder to have them generated.");
}

/// A directory replaces an empty one, and no other: the first of several workers wins, and the
/// files of the others are the same.
void publish(const fs::path& temporary, const fs::path& folder) {
  if (std::rename(temporary.c_str(), folder.c_str()) == 0) return;
  const int error = errno;
  if ((error == ENOTEMPTY || error == EEXIST) && is_made(folder)) {
    fs::remove_all(temporary);
    return;
  }
  fail_to_write(folder, {error, std::generic_category()});
}

}  // namespace

std::vector<Birth> generate(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Birth> births;
  for (std::int64_t i = 0; i < count; ++i) births.push_back(draw(random));
  return births;
}

std::filesystem::path make_folder(const std::string& data_dir, std::int64_t train_rows) {
  // The number of rows and the user are in the name: others' folders are neither right nor ours.
  const std::string own = text("troupe-generated-births-", train_rows, "-", ::getuid());
  fs::path folder = data_dir.empty() ? fs::temp_directory_path() / own : fs::path(data_dir);
  folder = fs::absolute(folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "births/" is "births"
  if (is_made(folder)) return folder;
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (error) fail_to_write(folder, error);
  std::string temporary = folder.string() + ".tmp.XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) {
    fail_to_write(folder, {errno, std::generic_category()});
  }
  try {
    fs::permissions(temporary, fs::perms(0755));  // mkdtemp's are for this user alone
    write_csv(fs::path(temporary) / "train.csv", generate(train_rows, /*seed=*/1));
    write_csv(fs::path(temporary) / "eval.csv", generate(kEvalRows, /*seed=*/2));
    publish(temporary, folder);
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  troupe::log_info("generated births are in ", folder.string());
  return folder;
}

}  // namespace births
