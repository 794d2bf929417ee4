// One launched worker, parameter server or evaluator: its process, its two output streams on their
// way to the launcher's, its log file, and its last lines, kept for the report if it fails.
#pragma once

#include <sys/types.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/core/unique_fd.h"
#include "troupe/launcher/run/launch_child.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/launcher/run/launch_policy.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {

class LaunchedWorker {
 public:
  static constexpr std::size_t kLastLines = 10;

  /// `index`: within its role. `prefix` comes before every line; a line of our log then does not
  /// repeat the name. Every line is appended to the file `log_path`; empty: none. The lines go to
  /// `console`, which outlives the worker; `on_closed`: after both streams ended.
  /// Throws: EnvironmentError if the log file cannot be opened.
  LaunchedWorker(boost::asio::io_context& io, LaunchRole role, int index, std::string prefix,
                 std::string log_path, LaunchConsole& console, std::function<void()> on_closed);
  ~LaunchedWorker();
  LaunchedWorker(const LaunchedWorker&) = delete;
  LaunchedWorker& operator=(const LaunchedWorker&) = delete;

  /// Starts the process and reads its output. `start` lacks only the two output descriptors.
  void start(ChildStart start);
  /// To the worker's whole process group; nothing once the worker ended.
  void signal(int number);
  /// By one of kStopSignals, and not killed since.
  [[nodiscard]] bool is_asked_to_stop() const { return is_asked_to_stop_; }
  /// The process ended; waitpid must not have been called yet. Kills what it left in its group.
  void reap();
  /// Reads on if the sinks were full and are no longer.
  void resume();
  /// Takes what is there and gives up what may still come: the streams are held open by a process
  /// that is not ours.
  void close_streams();

  [[nodiscard]] LaunchRole role() const { return role_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string name() const { return task_name(role_, index_); }
  [[nodiscard]] bool running() const { return pid_ > 0 && !end_; }
  [[nodiscard]] bool streams_open() const { return open_streams_ > 0; }
  [[nodiscard]] const std::optional<ChildEnd>& end() const { return end_; }
  /// For the report. It must have ended.
  [[nodiscard]] EndedProcess ended() const { return {name(), *end_, ran_, last_lines_, log_path_}; }

 private:
  struct Stream {
    Stream(boost::asio::io_context& io, OutputSink& to, LineSplitter::Sink on_line)
        : descriptor(io), sink(to), lines(std::move(on_line)) {}
    boost::asio::posix::stream_descriptor descriptor;
    OutputSink& sink;
    LineSplitter lines;
    std::array<char, 16384> buffer{};
    bool paused = false;
  };

  [[nodiscard]] static UniqueFd open_stream(Stream& stream);
  void read(Stream& stream);
  /// Takes what is there, at most kSinkLimitBytes, without waiting.
  static void drain(Stream& stream);
  void take_line(OutputSink& sink, std::string_view line);
  void write_log(std::string_view line);

  LaunchRole role_;
  int index_;
  std::string prefix_;
  std::string log_path_;
  UniqueFd log_;
  LaunchConsole& console_;
  const std::function<void()> on_closed_;
  Stream out_;
  Stream err_;
  int open_streams_ = 0;
  pid_t pid_ = -1;
  bool is_asked_to_stop_ = false;
  std::chrono::steady_clock::time_point started_;
  Seconds ran_{0};
  std::optional<ChildEnd> end_;
  std::deque<std::string> last_lines_;
};

}  // namespace troupe
