#include "bench/markdown_table.h"

#include <algorithm>
#include <utility>

#include "troupe/core/check.h"

namespace troupe::bench {

void MarkdownTable::add(std::vector<std::string> row) {
  TROUPE_CHECK_EQ(row.size(), rows_.front().size());
  rows_.push_back(std::move(row));
}

std::string MarkdownTable::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 2);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string padding(widths[i] - rows_[r][i].size(), ' ');
      out += i == 0 ? "| " + rows_[r][i] + padding : " | " + padding + rows_[r][i];
    }
    out += " |\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      out += i == 0 ? "|" + std::string(widths[i] + 2, '-')
                    : "|" + std::string(widths[i] + 1, '-') + ":";
    }
    out += "|\n";
  }
  return out;
}

}  // namespace troupe::bench
