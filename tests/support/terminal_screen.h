// What a terminal makes of the bytes that a program writes to it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace troupe::testing {

/// A terminal of characters: CR, LF, ESC [ J (erase below), ESC [ n A (up), ESC [ ? 7 l and h (no
/// wrapping, wrapping), ESC [ n m (colors); anything else that it would obey is `odd`.
class TerminalScreen {
 public:
  using Frame = std::vector<std::string>;

  explicit TerminalScreen(int columns) : columns_(static_cast<std::size_t>(columns)) {}
  /// `on_frame`: lines were drawn below the cursor, which is back above them.
  std::function<void(const Frame&)> on_frame = nullptr;

  void feed(const std::string& bytes) {
    for (const char c : bytes) {
      if (!escape_.empty() || c == '\033') {
        escape_ += c;
        const bool is_whole = escape_.size() > 2 && c >= 0x40 && c < 0x7f;
        if (is_whole) obey();
      } else if (c == '\r') {
        column_ = 0;
      } else if (c == '\n') {
        ++row_;
      } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        odd += c;
      } else {
        put(c);
      }
    }
  }
  void resize(int columns) { columns_ = static_cast<std::size_t>(columns); }

  /// All that scrolled by or is shown, from the first line; a line that wrapped is one.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> whole;
    for (const Row& row : rows_) {
      if (row.continues && !whole.empty())
        whole.back() += row.characters;
      else
        whole.push_back(row.characters);
    }
    return whole;
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& line : lines()) all += line + '\n';
    return all;
  }

  std::vector<Frame> frames;
  int clipped = 0;  // characters that did not fit, wrapping being off
  std::string odd;  // what else it would have obeyed
  bool colors = false;

 private:
  struct Row {
    std::string characters;
    bool continues = false;  // the row above
  };

  Row& row() {
    if (rows_.size() <= row_) rows_.resize(row_ + 1);
    return rows_[row_];
  }
  void put(char c) {
    if (column_ >= columns_) {
      if (!wraps_) {
        ++clipped;
        column_ = columns_ - 1;
      } else {
        column_ = 0;
        ++row_;
        row().continues = true;
      }
    }
    std::string& characters = row().characters;
    if (column_ >= characters.size()) characters.resize(column_ + 1, ' ');
    characters[column_++] = c;
  }
  void obey() {
    if (escape_ == "\033[J") {
      row().characters.resize(std::min(row().characters.size(), column_));
      rows_.resize(row_ + 1);
    } else if (escape_ == "\033[?7l" || escape_ == "\033[?7h") {
      wraps_ = escape_.back() == 'h';
    } else if (escape_.back() == 'A') {
      const Frame below(lines_from(row_ + 1 - static_cast<std::size_t>(std::atoi(&escape_[2]))));
      row_ -= static_cast<std::size_t>(std::atoi(&escape_[2]));
      frames.push_back(below);
      if (on_frame) on_frame(below);
    } else if (escape_.back() == 'm') {
      colors = true;
    } else {
      odd += escape_;
    }
    escape_.clear();
  }
  [[nodiscard]] Frame lines_from(std::size_t first) const {
    Frame frame;
    for (std::size_t i = first; i < rows_.size(); ++i) frame.push_back(rows_[i].characters);
    return frame;
  }

  std::size_t columns_;
  std::vector<Row> rows_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  bool wraps_ = true;
  std::string escape_;
};

}  // namespace troupe::testing
