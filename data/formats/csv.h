// CSV: tables as text, RFC 4180, plain or gzip-compressed: typed columns, found by the names in the
// first line. Free of LibTorch; data/formats/load_files.h makes a data set of a table.
//
// A file is hostile until checked: a line, and what a compressed file unpacks to, have limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

namespace detail {
enum class CsvType { real, integer, category };
}  // namespace detail

/// A column to be read, and how its values are written.
struct CsvColumn {
  std::string name;
  detail::CsvType type = detail::CsvType::real;
  std::vector<std::string> categories;  // of a category: the texts that stand for 0, 1, ...
};
/// A finite number, "-1.5e3".
[[nodiscard]] CsvColumn csv_real(std::string name);
/// A whole number of 64 bits.
[[nodiscard]] CsvColumn csv_integer(std::string name);
/// One of these texts, whose place among them is the value: {"apple", "pear"}.
[[nodiscard]] CsvColumn csv_category(std::string name, std::vector<std::string> categories);

struct CsvTable {
  std::int64_t rows = 0;
  /// Rows x columns of the field each, row after row.
  std::vector<std::variant<std::vector<float>, std::vector<std::int64_t>>> fields;
};

/// The longest line, and value in quotation marks, in bytes.
inline constexpr std::size_t kCsvLongestLine = std::size_t{1} << 20;

/// Reads the columns of `fields`, each of which becomes one tensor: of reals, or of integers and
/// categories. They may have any order in the file, which may have others. The first line holds the
/// names; before it a line "sep=;" may name the separator, instead of the argument. Lines end with
/// LF, CR LF or CR; empty ones are skipped, and so is a byte order mark. A value may stand in
/// quotation marks, and then contain separators, line ends and "" for a quotation mark; blanks
/// around other values are ignored.
/// Throws: DataError naming file, line and column, for a missing column, a name that is there
/// twice, a line with more or fewer values than names, a value that is none of its type (an empty
/// one and NaN too), a line longer than kCsvLongestLine, UTF-16, or no row at all; as DataFile, and
/// if a compressed file unpacks to more than 64 MiB and more than 100 times its own size.
/// ConfigError for a field without columns, of reals and others, or of a category without
/// categories.
/// Cost: memory for the values, 4 or 8 bytes each, and as much again while they grow.
[[nodiscard]] CsvTable read_csv(const std::filesystem::path& path,
                                const std::vector<std::vector<CsvColumn>>& fields,
                                char separator = ',');

}  // namespace troupe
