#include "servers/wire/busy_pulse.h"

#include <utility>

namespace troupe {

BusyPulse::BusyPulse(std::chrono::milliseconds interval, std::function<void()> beat)
    : interval_(interval), beat_(std::move(beat)), thread_([this] { run(); }) {}

BusyPulse::~BusyPulse() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void BusyPulse::set(bool busy) {
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = busy;
}

// It looks at the clock alone, so that the many short updates of a small model wake nobody. The
// lock is held during a beat: the owner waits for its end.
void BusyPulse::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_.wait_for(lock, interval_, [this] { return stop_; })) {
    if (busy_) beat_();
  }
}

}  // namespace troupe
