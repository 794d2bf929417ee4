#include <algorithm>
#include <iomanip>

#include "troupe/core/text.h"
#include "troupe/train/model_summary.h"

namespace troupe {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kLeastName = 12;

struct Line {
  std::string name, shape, count, type, state;
};

/// "[8, 1, 5, 5]"
std::string shape_of(const std::vector<std::int64_t>& shape) {
  return "[" + join(shape, ", ", [](std::int64_t size) { return text(size); }) + "]";
}

/// 1234567 -> "1,234,567"
std::string grouped(std::int64_t number) {
  std::string digits = text(number);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

std::string size_of(std::int64_t bytes) {
  if (bytes < 10'000) return text(grouped(bytes), " bytes");
  return text(std::fixed, std::setprecision(2), static_cast<double>(bytes) / 1e6, " MB");
}

std::string state_of(const ParameterRow& row) {
  if (!row.tied_to.empty()) return "= " + row.tied_to;
  if (row.is_buffer) return "buffer";
  if (row.trained) return row.optimizer;
  return row.optimizer.empty() ? "no optimiser" : "frozen";
}

/// At most `width` characters: the ends of a path say most, its beginning names the part and its
/// end the tensor.
std::string shortened(const std::string& path, std::size_t width) {
  if (path.size() <= width) return path;
  const std::size_t tail = (width - 2) * 2 / 3;
  const std::size_t head = width - 2 - tail;
  return path.substr(0, head) + ".." + path.substr(path.size() - tail);
}

std::string padded(const std::string& value, std::size_t width) {
  return value + std::string(width > value.size() ? width - value.size() : 0, ' ');
}
std::string right(const std::string& value, std::size_t width) {
  return std::string(width > value.size() ? width - value.size() : 0, ' ') + value;
}

}  // namespace

ParameterTotals total(const std::vector<ParameterRow>& rows) {
  ParameterTotals totals;
  for (const ParameterRow& row : rows) {
    if (!row.tied_to.empty()) continue;
    (row.is_buffer ? totals.buffers : row.trained ? totals.trained : totals.frozen) += row.count;
    totals.bytes += row.bytes;
  }
  return totals;
}

std::string summary_table(const std::vector<ParameterRow>& rows) {
  std::vector<Line> lines = {{"parameter", "shape", "values", "type", "trained by"}};
  for (const ParameterRow& row : rows) {
    lines.push_back({row.name, shape_of(row.shape), grouped(row.count), row.type, state_of(row)});
  }
  const auto widest = [&](std::string Line::*field) {
    std::size_t width = 0;
    for (const Line& line : lines) width = std::max(width, (line.*field).size());
    return width;
  };
  constexpr std::size_t kGaps = 8;  // four, of two characters each
  const std::size_t shape = std::min<std::size_t>(widest(&Line::shape), 24);
  const std::size_t count = widest(&Line::count);
  const std::size_t type = std::min<std::size_t>(widest(&Line::type), 10);
  const std::size_t state = std::min<std::size_t>(widest(&Line::state), 16);
  const std::size_t others = shape + count + type + state + kGaps;
  const std::size_t room = others + kLeastName < kWidth ? kWidth - others : kLeastName;
  const std::size_t name = std::min(widest(&Line::name), room);
  std::string table;
  for (const Line& line : lines) {
    table += padded(shortened(line.name, name), name) + "  " +
             padded(shortened(line.shape, shape), shape) + "  " + right(line.count, count) + "  " +
             padded(shortened(line.type, type), type) + "  " + shortened(line.state, state) + "\n";
  }
  const ParameterTotals totals = total(rows);
  return table + text(grouped(totals.trained), " values trained, ", grouped(totals.frozen),
                      " frozen, ", grouped(totals.buffers), " in buffers; ", size_of(totals.bytes),
                      "\n");
}

}  // namespace troupe
