// examples/regression/births.h -- births as lines of a CSV file: a header, then one birth a line.
// Like generated_births.h free of LibTorch, so that both compile and are tested in seconds.
#pragma once

#include <filesystem>
#include <vector>

namespace births {

inline constexpr int kMostPlural = 5;  // quintuplets

/// One birth; the fields are the columns, in this order.
struct Birth {
  double weight_pounds = 0;  // what is to be predicted
  int is_male = 0;           // 1 or 0
  int mother_age = 0;        // years
  int plurality = 1;         // 1: a single child, 2: a twin, ...
  int gestation_weeks = 0;
};

/// All births of a file, at least one. Lines end with LF or CR LF.
/// Throws: troupe::DataError that names file and line, for a header, a number of columns or a value
/// that is not as it should be (NaN too), a line that is too long, or a file without births.
[[nodiscard]] std::vector<Birth> read_csv(const std::filesystem::path& path);

}  // namespace births
