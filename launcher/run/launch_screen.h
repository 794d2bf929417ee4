// The launcher's screen: on a terminal, the progress of the group in a few lines below all output.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/unique_fd.h"
#include "troupe/launcher/run/launch_output.h"
#include "troupe/report/progress_bar.h"

namespace troupe {

class LaunchScreen {
 public:
  using Processes = std::function<std::vector<ProcessStatus>()>;

  /// Does nothing, at any call, unless it is `wanted` and stderr is a terminal. `io` and `console`
  /// outlive it. Throws: EnvironmentError (no more descriptors).
  LaunchScreen(boost::asio::io_context& io, LaunchConsole& console, bool wanted);

  /// What workers inherit and send their progress to (report/progress_sinks.h); -1: nothing is
  /// shown.
  [[nodiscard]] int descriptor() const { return senders_.get(); }
  /// A group starts: what was known of a former one is forgotten. `processes` is asked at every
  /// drawing.
  void begin(Processes processes);
  /// A process is not what it was: draws soon. Without it, once a second, at the window's size by
  /// then.
  void change();
  /// Erases, for good.
  void end();

 private:
  void read();
  void take(std::string_view line);
  void draw_at(std::chrono::steady_clock::time_point when);
  void draw();

  LaunchConsole& console_;
  boost::asio::posix::stream_descriptor receiver_;
  UniqueFd senders_;
  boost::asio::steady_timer pause_;  // between two drawings
  std::chrono::steady_clock::time_point drawn_at_{};
  Processes processes_;
  std::optional<Progress> progress_;         // of the first rank that tells
  std::map<std::string, Progress> workers_;  // by name
};

}  // namespace troupe
