// Output of launched workers on its way out: bytes are cut into lines, lines are written whole.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace troupe {

/// Cuts a stream of bytes into lines. A carriage return ends a line, too, so that a progress bar
/// cannot overwrite another worker's line. A line beyond kMaxLineBytes goes out in pieces.
class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view line)>;  // without its line end
  static constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

  explicit LineSplitter(Sink sink) : sink_(std::move(sink)) {}
  void feed(std::string_view bytes);
  /// The stream ended: what is left is a line.
  void finish();

 private:
  void emit();

  Sink sink_;
  std::string line_;
  bool after_return_ = false;  // the last byte was '\r': a '\n' belongs to it
};

/// A descriptor that is written without ever waiting for its reader: what the reader does not take
/// yet stays here. Works for pipes, terminals and files alike, and leaves the descriptor's flags,
/// which other processes share, as they are.
class OutputSink {
 public:
  explicit OutputSink(int fd) : fd_(fd) {}
  /// Keeps `bytes` for writing; drops them if the reader is gone.
  void append(std::string_view bytes);
  /// Writes what the reader takes now, whole lines where they fit. Returns whether nothing is left.
  bool flush();
  /// The last byte written is not the end of a line.
  [[nodiscard]] bool mid_line() const { return mid_line_; }
  [[nodiscard]] std::size_t pending_bytes() const { return pending_.size() - written_; }

 private:
  int fd_;
  std::string pending_;
  std::size_t written_ = 0;  // of pending_
  bool mid_line_ = false;
  bool broken_ = false;  // a write failed: the reader is gone or the disk is full
};

}  // namespace troupe
