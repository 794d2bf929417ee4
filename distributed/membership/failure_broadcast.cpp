#include "troupe/distributed/membership/failure_broadcast.h"

#include <utility>

#include "troupe/distributed/membership/control_messages.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// Frames normally leave at once; who does not read must not hold up the others.
constexpr std::chrono::milliseconds kFlush{200};
constexpr std::chrono::milliseconds kFlushPoll{1};

}  // namespace

FailureBroadcast::FailureBroadcast(boost::asio::io_context& context, ControlLines& lines,
                                   std::function<void(const Failure&)> on_told)
    : lines_(lines), on_told_(std::move(on_told)), poll_(context) {}

void FailureBroadcast::begin(const Failure& failure, FrameType as) {
  if (begun()) return;
  failure_ = failure;
  lines_.send_all(as, to_json(failure));
  limit_ = std::chrono::steady_clock::now() + kFlush;
  flush();
}

void FailureBroadcast::begin_silently(const Failure& failure) {
  if (begun()) return;
  failure_ = failure;
  flush();
}

void FailureBroadcast::flush() {
  if (!lines_.has_unsent() || std::chrono::steady_clock::now() >= limit_) {
    return on_told_(*failure_);
  }
  run_after(poll_, kFlushPoll, [this] { flush(); });
}

}  // namespace troupe
