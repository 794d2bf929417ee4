#include "examples/regression/births.h"

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace births {
namespace {

using troupe::DataError;
using troupe::text;

/// What a column may hold. The limits are those of the model's tables, and of a typing error.
struct Column {
  const char* name;
  double least;
  double most;
  enum class Number { real, whole } number;
};

constexpr std::array<Column, 5> kColumns = {{{"weight_pounds", 0.2, 30, Column::Number::real},
                                             {"is_male", 0, 1, Column::Number::whole},
                                             {"mother_age", 10, 70, Column::Number::whole},
                                             {"plurality", 1, kMostPlural, Column::Number::whole},
                                             {"gestation_weeks", 15, 50, Column::Number::whole}}};

constexpr std::streamsize kLongestLine = 200;  // characters; the longest sensible one has 30

std::string header() {
  std::string line;
  for (const Column& column : kColumns)
    line += (line.empty() ? "" : ",") + std::string(column.name);
  return line;
}

/// A file's lines, one at a time, and where the reader is.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_ || !std::filesystem::is_regular_file(path)) {
      throw DataError(text("'", path.string(), "' cannot be read as a file."),
                      "check --data-dir: it holds train.csv and eval.csv.");
    }
  }

  /// The next line without its end; unset after the last.
  [[nodiscard]] std::optional<std::string_view> next() {
    if (file_.peek() == std::ifstream::traits_type::eof() && !file_.bad()) return std::nullopt;
    ++number_;
    file_.getline(buffer_.data(), kLongestLine + 1);  // stops where the buffer is full
    if (file_.fail()) fail(text("is longer than ", kLongestLine, " characters, or unreadable"));
    const bool has_end = !file_.eof();
    std::size_t length = static_cast<std::size_t>(file_.gcount()) - (has_end ? 1 : 0);
    if (length > 0 && buffer_[length - 1] == '\r') --length;
    return std::string_view(buffer_.data(), length);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(text("'", path_.string(), "' line ", number_, " ", what, "."),
                    text("give a header ", header(), " and five numbers a line."));
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::array<char, kLongestLine + 1> buffer_{};
  std::int64_t number_ = 0;  // of the last line read, from 1
};

/// The text without what a terminal would not show.
std::string shown(std::string_view value) {
  std::string result(value);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return result;
}

double read_value(std::string_view value, const Column& column, const Lines& lines) {
  double number = 0;
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  const bool whole = column.number == Column::Number::whole;
  // NaN fails both comparisons.
  const bool good = error == std::errc() && rest == end && number >= column.least &&
                    number <= column.most && (!whole || number == std::floor(number));
  if (!good) {
    lines.fail(text("has ", column.name, " \"", shown(value), "\", expected ",
                    whole ? "a whole number" : "a number", " from ", column.least, " to ",
                    column.most));
  }
  return number;
}

Birth read_birth(std::string_view line, const Lines& lines) {
  std::array<double, kColumns.size()> values{};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const std::size_t comma = line.find(',', begin);
    if ((comma == std::string_view::npos) != (i + 1 == kColumns.size())) {
      lines.fail(text("does not have ", kColumns.size(), " columns: \"", shown(line), "\""));
    }
    const std::size_t end = comma == std::string_view::npos ? line.size() : comma;
    values[i] = read_value(line.substr(begin, end - begin), kColumns[i], lines);
    begin = end + 1;
  }
  return {values[0], static_cast<int>(values[1]), static_cast<int>(values[2]),
          static_cast<int>(values[3]), static_cast<int>(values[4])};
}

}  // namespace

std::vector<Birth> read_csv(const std::filesystem::path& path) {
  Lines lines(path);
  const auto first = lines.next();
  if (!first) {
    throw DataError(text("'", path.string(), "' is empty."),
                    text("give a header ", header(), " and five numbers a line."));
  }
  if (*first != header()) lines.fail(text("is \"", shown(*first), "\", which is not the header"));
  std::vector<Birth> births;
  while (const auto line = lines.next()) births.push_back(read_birth(*line, lines));
  if (births.empty()) lines.fail("is the last one: there are no births");
  return births;
}

}  // namespace births
