// The launcher's own two streams: what the processes print and what the launcher says about them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "launcher/launch_output.h"

namespace troupe {

class LaunchConsole {
 public:
  /// Whether all that was appended is written.
  enum class Written { all, in_part };

  /// `on_flush` is called after every attempt to write.
  LaunchConsole(boost::asio::io_context& io, std::function<void(Written)> on_flush);

  [[nodiscard]] OutputSink& out() { return out_; }
  [[nodiscard]] OutputSink& err() { return err_; }
  /// A sentence of the launcher's own, on stderr.
  void say(const std::string& sentence);
  /// Writes what the readers take, now and as often as it needs.
  void flush();
  [[nodiscard]] bool is_empty() const {
    return out_.pending_bytes() == 0 && err_.pending_bytes() == 0;
  }

 private:
  OutputSink out_{1};
  OutputSink err_{2};
  boost::asio::steady_timer retry_;
  bool retry_armed_ = false;
  std::function<void(Written)> on_flush_;
  const bool one_output_;  // stdout and stderr are the same file: 2>&1
};

}  // namespace troupe
