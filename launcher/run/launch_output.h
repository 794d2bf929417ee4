// Output of launched workers on its way out: bytes are cut into lines, lines are written whole.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

// The launcher's own two streams: what the processes print and what the launcher says about them;
// on a terminal, a few lines below both.
class LaunchConsole {
 public:
  /// Whether all that was appended is written.
  enum class Written { all, in_part };

  /// `on_flush` is called after every attempt to write.
  LaunchConsole(boost::asio::io_context& io, std::function<void(Written)> on_flush);
  ~LaunchConsole();  // erases the lines below
  LaunchConsole(const LaunchConsole&) = delete;
  LaunchConsole& operator=(const LaunchConsole&) = delete;

  [[nodiscard]] OutputSink& out() { return out_; }
  [[nodiscard]] OutputSink& err() { return err_; }
  /// A sentence of the launcher's own, on stderr.
  void say(const std::string& sentence);
  /// Lines that stay below all others where stderr is a terminal, in place of those before; empty:
  /// none. Each is narrower than the terminal (core/terminal.h).
  void show_below(std::vector<std::string> lines);
  /// Writes what the readers take, now and as often as it needs.
  void flush();
  [[nodiscard]] bool is_empty() const {
    return out_.pending_bytes() == 0 && err_.pending_bytes() == 0;
  }

 private:
  [[nodiscard]] bool waits_for_terminal() const;
  void erase_below();
  void draw_below();

  OutputSink out_{1};
  OutputSink err_{2};
  OutputSink screen_{2};  // erases and draws `below_`, and so empty before the others write
  std::vector<std::string> below_;  // to be shown
  bool is_drawn_ = false;
  boost::asio::steady_timer retry_;
  bool retry_armed_ = false;
  std::function<void(Written)> on_flush_;
  const bool one_output_;  // stdout and stderr are the same file: 2>&1
  const bool out_is_terminal_;
};

}  // namespace troupe
