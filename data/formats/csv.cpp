#include "troupe/data/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/data_file.h"

namespace troupe {
namespace {

using detail::shown;

constexpr const char* kFixLine = "correct the line, or the columns that the program reads.";
constexpr std::size_t kCsvStep = std::size_t{64} << 10;

/// A file's lines as values, one line at a time.
class Records {
 public:
  Records(const std::filesystem::path& path, char separator)
      : file_(path, kFixLine), separator_(separator) {}

  /// The values of the next line that is not empty, until the next call; false after the last.
  [[nodiscard]] bool next(std::vector<std::string_view>& values);
  /// Of the values, in the file.
  [[noreturn]] void fail(const std::string& what) const {
    file_.fail(text("line ", first_line_, " ", what));
  }

 private:
  static constexpr int kEnd = -1;
  [[nodiscard]] int peek();
  int take();
  /// Takes the next character of the values.
  char take_counted() {
    count(1);
    return static_cast<char>(take());
  }
  void count(std::size_t bytes) {
    length_ += bytes;
    if (length_ > kCsvLongestLine) {
      fail(text("is longer than ", kCsvLongestLine, " bytes, the limit"));
    }
  }
  [[nodiscard]] bool is_line_end() {
    const int c = peek();
    return c == '\n' || c == '\r' || c == kEnd;
  }
  void begin();
  [[nodiscard]] bool next_plain_line(std::vector<std::string_view>& values);
  void read_more();
  void read_quoted(std::string& value);
  void read_plain(std::string& value);

  detail::DataFile file_;
  char separator_;
  std::string buffer_;
  std::size_t at_ = 0;
  bool has_whole_lines_ = true;      // in the buffer, so far
  std::vector<std::string> values_;  // of a line that is read by its characters
  std::int64_t line_ = 1;            // of the next character
  std::int64_t first_line_ = 1;      // of the values
  std::size_t length_ = 0;           // of the values so far
  bool after_return_ = false;        // the last character was CR
  bool begun_ = false;
};

int Records::peek() {
  if (at_ == buffer_.size()) {
    buffer_.resize(kCsvStep);
    buffer_.resize(file_.read_some(buffer_.data(), kCsvStep));
    at_ = 0;
    if (buffer_.empty()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

/// A line ends with LF, CR LF or CR.
int Records::take() {
  const int c = peek();
  if (c == kEnd) return c;
  ++at_;
  if (c == '\r' || (c == '\n' && !after_return_)) ++line_;
  after_return_ = c == '\r';
  return c;
}

/// What stands before the names: a byte order mark, and the line by which spreadsheets name the
/// separator.
void Records::begin() {
  begun_ = true;
  (void)peek();
  const auto begins_with = [&](std::string_view mark) {
    return std::string_view(buffer_).substr(at_, mark.size()) == mark;
  };
  if (begins_with("\xFF\xFE") || begins_with("\xFE\xFF")) {
    file_.fail("is in UTF-16", "save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE.");
  }
  if (begins_with("\xEF\xBB\xBF")) at_ = 3;
  const std::string_view next = std::string_view(buffer_).substr(at_, 6);
  if (begins_with("sep=") && next.size() == 6 && (next[5] == '\n' || next[5] == '\r')) {
    separator_ = next[4];
    at_ += 5;
  }
}

void Records::read_quoted(std::string& value) {
  (void)take();
  for (;;) {
    if (peek() == kEnd) fail("has a quotation mark that is not closed");
    if (peek() != '"') {
      value.push_back(take_counted());
      continue;
    }
    (void)take();
    if (peek() != '"') break;
    value.push_back(take_counted());
  }
  if (!is_line_end() && peek() != static_cast<unsigned char>(separator_)) {
    fail(text("has more after the quotation marks around \"", shown(value), "\""));
  }
}

void Records::read_plain(std::string& value) {
  const char stops[] = {separator_, '\n', '\r', '"'};
  const auto ends = [&](char c) { return std::find(stops, stops + 4, c) != stops + 4; };
  while (peek() != kEnd) {  // a value may go on in the next piece of the file
    const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto stop = std::find_if(from, buffer_.end(), ends);
    count(static_cast<std::size_t>(stop - from));
    value.append(from, stop);
    at_ = static_cast<std::size_t>(stop - buffer_.begin());
    if (stop == buffer_.end()) continue;
    if (*stop == '"') fail(text("has a quotation mark within \"", shown(value), "\""));
    break;
  }
  after_return_ = false;
  const char* const blanks = separator_ == '\t' ? " " : " \t";
  value.erase(value.find_last_not_of(blanks) + 1);
  value.erase(0, value.find_first_not_of(blanks));
}

/// More of the file behind what is left of the buffer.
void Records::read_more() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t left = buffer_.size();
  buffer_.resize(left + kCsvStep);
  buffer_.resize(left + file_.read_some(&buffer_[left], kCsvStep));
}

/// The way of most lines: the line lies in the buffer, and no quotation mark is in it. False:
/// nothing was taken, and the line is to be read by its characters.
bool Records::next_plain_line(std::vector<std::string_view>& values) {
  if (!has_whole_lines_) return false;
  const auto line_end = [&] {
    return static_cast<const char*>(std::memchr(buffer_.data() + at_, '\n', buffer_.size() - at_));
  };
  const char* end = line_end();
  if (end == nullptr) {
    read_more();
    end = line_end();
  }
  has_whole_lines_ = end != nullptr;
  if (!has_whole_lines_) return false;
  const char* from = buffer_.data() + at_;
  const auto length = static_cast<std::size_t>(end - from);
  const char* const next = end + 1;
  const void* const carriage_return = std::memchr(from, '\r', length);
  if (carriage_return != nullptr && carriage_return != --end) return false;
  if (from == end || std::memchr(from, '"', length) != nullptr) return false;
  values.clear();
  const auto is_blank = [&](char c) { return c == ' ' || (c == '\t' && separator_ != '\t'); };
  for (;;) {
    const char* const stop = std::find(from, end, separator_);
    const char* last = stop;
    while (from != last && is_blank(last[-1])) --last;
    while (from != last && is_blank(*from)) ++from;
    values.emplace_back(from, static_cast<std::size_t>(last - from));
    if (stop == end) break;
    from = stop + 1;
  }
  at_ = static_cast<std::size_t>(next - buffer_.data());
  first_line_ = line_++;
  after_return_ = false;
  return true;
}

bool Records::next(std::vector<std::string_view>& values) {
  if (!begun_) begin();
  if (next_plain_line(values)) return true;
  while (peek() != kEnd && is_line_end()) {
    (void)take();
  }
  first_line_ = line_;
  if (peek() == kEnd) return false;
  length_ = 0;
  std::size_t count = 0;
  for (;;) {
    // Strings keep their memory from line to line.
    if (count == values_.size()) values_.emplace_back();
    std::string& value = values_[count++];
    value.clear();
    if (peek() == '"') {
      read_quoted(value);
    } else {
      read_plain(value);
    }
    if (is_line_end()) break;
    (void)take_counted();  // the separator
  }
  values.assign(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

/// A column of the program, in the file.
struct Place {
  const CsvColumn* column;
  std::size_t index;  // among the file's
  std::map<std::string_view, std::int64_t> categories;
};

std::string quoted_list(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += text(list.empty() ? "\"" : ", \"", shown(name), "\"");
    if (list.size() > 400) return list + ", ...";
  }
  return list;
}

Place place_of(const CsvColumn& column, const std::vector<std::string>& names,
               const Records& records) {
  const auto found = std::find(names.begin(), names.end(), column.name);
  if (found == names.end()) {
    records.fail(text("names no column \"", column.name, "\"; there is: ", quoted_list(names)));
  }
  if (std::find(found + 1, names.end(), column.name) != names.end()) {
    records.fail(text("names two columns \"", column.name, "\""));
  }
  Place place{&column, static_cast<std::size_t>(found - names.begin()), {}};
  for (const std::string& category : column.categories) {
    place.categories.emplace(category, static_cast<std::int64_t>(place.categories.size()));
  }
  return place;
}

/// All of `value` as a number, with a sign or without; unset if it is none, or too large.
template <class Number>
std::optional<Number> number_in(std::string_view value) {
  if (value.size() > 1 && value[0] == '+' && value[1] != '-') value.remove_prefix(1);
  Number number{};
  const char* const end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, number);
  if (rest != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return number;
  // Too small for a float is 0, or the nearest to it that there is.
  if constexpr (std::is_floating_point_v<Number>) {
    long double wide = 0;
    if (std::from_chars(value.data(), end, wide).ec == std::errc() && std::abs(wide) < 1) {
      return static_cast<Number>(wide);
    }
  }
  return std::nullopt;
}

/// Takes a line's values into the fields.
struct Line {
  const Records& records;
  const std::vector<std::string_view>& values;

  void take(const std::vector<Place>& places, std::vector<float>& into) const {
    for (const Place& place : places) {
      const auto value = number_in<float>(values[place.index]);
      if (!value || !std::isfinite(*value)) refuse(place, "a finite number");
      into.push_back(*value);
    }
  }
  void take(const std::vector<Place>& places, std::vector<std::int64_t>& into) const {
    for (const Place& place : places) {
      const std::string_view value = values[place.index];
      if (place.column->type == detail::CsvType::integer) {
        const auto number = number_in<std::int64_t>(value);
        if (!number) refuse(place, "a whole number of 64 bits");
        into.push_back(*number);
        continue;
      }
      const auto category = place.categories.find(value);
      if (category == place.categories.end()) {
        refuse(place, "one of " + quoted_list(place.column->categories));
      }
      into.push_back(category->second);
    }
  }
  [[noreturn]] void refuse(const Place& place, const std::string& expected) const {
    records.fail(text("has ", place.column->name, " \"", shown(values[place.index]),
                      "\", expected ", expected));
  }
};

void check_fields(const std::vector<std::vector<CsvColumn>>& fields) {
  const auto is_real = [](const CsvColumn& c) { return c.type == detail::CsvType::real; };
  for (const std::vector<CsvColumn>& field : fields) {
    const auto reals = std::count_if(field.begin(), field.end(), is_real);
    if (field.empty() || (reals != 0 && reals != static_cast<std::ptrdiff_t>(field.size()))) {
      throw ConfigError(field.empty()
                            ? "read_csv() is to read a field of no columns."
                            : text("read_csv() is to read a field of \"", field.front().name,
                                   "\" and others, of which some are real numbers and some not."),
                        "give each tensor columns of real numbers, or of integers and categories; "
                        "csv_real reads whole numbers, too.");
    }
    for (const CsvColumn& column : field) {
      const bool is_category = column.type == detail::CsvType::category;
      if (is_category != column.categories.empty()) continue;
      throw ConfigError(text("read_csv() is to read the column \"", column.name, "\" with ",
                             column.categories.size(), " categories."),
                        "give categories to csv_category, and to no other.");
    }
  }
}

}  // namespace

CsvColumn csv_real(std::string name) { return {std::move(name), detail::CsvType::real, {}}; }
CsvColumn csv_integer(std::string name) { return {std::move(name), detail::CsvType::integer, {}}; }
CsvColumn csv_category(std::string name, std::vector<std::string> categories) {
  return {std::move(name), detail::CsvType::category, std::move(categories)};
}

CsvTable read_csv(const std::filesystem::path& path,
                  const std::vector<std::vector<CsvColumn>>& fields, char separator) {
  check_fields(fields);
  Records records(path, separator);
  std::vector<std::string_view> values;  // of the present line
  if (!records.next(values)) records.fail("is the end: the file is empty");
  const std::vector<std::string> names(values.begin(), values.end());
  const std::size_t columns = names.size();
  std::vector<std::vector<Place>> places(fields.size());
  CsvTable table;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    for (const CsvColumn& column : fields[i]) places[i].push_back(place_of(column, names, records));
    table.fields.emplace_back();
    if (fields[i].front().type != detail::CsvType::real) {
      table.fields.back() = std::vector<std::int64_t>();
    }
  }
  for (; records.next(values); ++table.rows) {
    if (values.size() != columns) {
      records.fail(text("has ", values.size(), values.size() == 1 ? " value" : " values",
                        ", but the first line names ", columns, " columns"));
    }
    const Line line{records, values};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::visit([&](auto& into) { line.take(places[i], into); }, table.fields[i]);
    }
  }
  if (table.rows == 0) records.fail("is the end: there are names and no rows");
  return table;
}

}  // namespace troupe
