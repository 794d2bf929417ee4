// FailureBroadcast: tells everybody at the other ends why this process stops, and stops it when
// they have been told.
//
// Thread rule: the network thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/membership/failure.h"

namespace troupe {

class FailureBroadcast {
 public:
  /// `on_told` runs once, when the frames have left, or shortly after where somebody does not read.
  /// First the frames leave: the thread that `on_told` wakes may end this process.
  FailureBroadcast(boost::asio::io_context& context, ControlLines& lines,
                   std::function<void(const Failure&)> on_told);

  /// The first failure stays; those after it are ignored. `as` is abort or report.
  void begin(const Failure& failure, FrameType as);
  /// The same without a word to anybody.
  void begin_silently(const Failure& failure);
  [[nodiscard]] bool begun() const { return failure_.has_value(); }
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }

 private:
  void flush();

  ControlLines& lines_;
  const std::function<void(const Failure&)> on_told_;
  boost::asio::steady_timer poll_;
  std::optional<Failure> failure_;
  std::chrono::steady_clock::time_point limit_;
};

}  // namespace troupe
