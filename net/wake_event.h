// WakeEvent: wakes a thread that sleeps in ::poll, from any other thread (an eventfd).
#pragma once

namespace troupe {

/// Once set it stays set: readable for every later poll.
class WakeEvent {
 public:
  /// Throws: EnvironmentError when the process has no file descriptor left.
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  void set() noexcept;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace troupe
