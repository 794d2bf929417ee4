// MarkdownTable: rows of text, aligned so that the source reads as a table, too. The first column
// leans left, the others right.
#pragma once

#include <string>
#include <vector>

namespace troupe::bench {

class MarkdownTable {
 public:
  explicit MarkdownTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  /// As many cells as the header has.
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // [0] is the header
};

}  // namespace troupe::bench
