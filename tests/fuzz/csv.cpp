// Data sets: tables as text.
#include "troupe/data/formats/csv.h"

#include <optional>
#include <string>
#include <variant>

#include "tests/fuzz/fuzz.h"
#include "troupe/core/error.h"

namespace troupe::fuzz::csv_target {
namespace {

const std::vector<std::vector<CsvColumn>> kFields = {{csv_real("x"), csv_real("y")},
                                                     {csv_category("kind", {"a", "b \"c\",\n"})},
                                                     {csv_integer("n")}};

std::optional<CsvTable> read(std::string_view file) {
  const MemoryFile there(file);
  std::optional<CsvTable> table;
  if (!accepts<DataError>([&] { table = read_csv(there.path(), kFields); })) return std::nullopt;
  return table;
}

std::string written(const CsvTable& table) {
  const auto& reals = std::get<std::vector<float>>(table.fields[0]);
  const auto& kinds = std::get<std::vector<std::int64_t>>(table.fields[1]);
  const auto& numbers = std::get<std::vector<std::int64_t>>(table.fields[2]);
  const auto rows = static_cast<std::size_t>(table.rows);
  FUZZ_REQUIRE(rows > 0 && reals.size() == 2 * rows && kinds.size() == rows &&
               numbers.size() == rows);
  std::string text = "n,kind,y,x\n";
  for (std::size_t i = 0; i < rows; ++i) {
    FUZZ_REQUIRE(kinds[i] == 0 || kinds[i] == 1);
    char line[128];
    std::snprintf(line, sizeof line, "%lld,%s,%.9g,%.9g\n", static_cast<long long>(numbers[i]),
                  kinds[i] == 0 ? "a" : "\"b \"\"c\"\",\n\"", double{reals[2 * i + 1]},
                  double{reals[2 * i]});
    text += line;
  }
  return text;
}

}  // namespace

std::vector<std::string> seeds() {
  return {"x,y,kind,n\n1,-2.5e3,a,7\n",
          "\xEF\xBB\xBFn,kind,other,x,y\r\n\r\n-1,\"b \"\"c\"\",\n\", z ,0.1,3\r\n",
          "kind,n,x,y\na,1,2,3\na,9223372036854775807,1e-30,1e30"};
}

bool run(std::string_view input) {
  const auto table = read(input);
  if (!table) return false;
  // Written again, it is the same table.
  const auto again = read(written(*table));
  FUZZ_REQUIRE(again && again->rows == table->rows && again->fields == table->fields);
  return true;
}

const Registration registered({"csv", seeds, run});

}  // namespace troupe::fuzz::csv_target
