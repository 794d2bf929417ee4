// examples/regression/births.h -- births: lines of a CSV file with a header, or generated.
// Free of LibTorch, so that it compiles and is tested in seconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace births {

inline constexpr int kMostPlural = 5;  // quintuplets

/// One birth; the fields are the columns.
struct Birth {
  double weight_pounds = 0;  // what is to be predicted
  int is_male = 0;           // 1 or 0
  int mother_age = 0;        // years
  int plurality = 1;         // 1: a single child, 2: a twin, ...
  int gestation_weeks = 0;
};

/// All births of a file, at least one, by the names of its columns.
/// Throws: as troupe::read_csv, with file and line, for sexes but 0 and 1 and more than quintuplets
/// too; troupe::DataError that names file and birth, for numbers that are a typing error.
[[nodiscard]] std::vector<Birth> read_csv(const std::filesystem::path& path);

inline constexpr std::int64_t kEvalRows = 4000;

/// `count` births that never happened: what the example trains on when it is given no files. Rules
/// of thumb with noise; they describe nobody and prove nothing. Fewer give a prefix of more.
/// Another seed gives others.
[[nodiscard]] std::vector<Birth> generate(std::int64_t count, std::uint64_t seed);

}  // namespace births
