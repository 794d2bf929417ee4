#include "examples/regression/births.h"

#include <cstdint>
#include <variant>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/csv.h"

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

}  // namespace births
