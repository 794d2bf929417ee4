// Gate: a number of threads wait for each other, again and again; whoever fails lets all go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/error.h"

namespace troupe::bench {

class Gate {
 public:
  explicit Gate(int count) : count_(count) {}

  /// Returns when all have come.  Throws: TimeoutError after `limit`; PeerFailed after fail().
  void pass(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int turn = turn_;
    if (++waiting_ == count_) {
      waiting_ = 0;
      ++turn_;
      changed_.notify_all();
      return;
    }
    const bool in_time = changed_.wait_for(lock, limit, [&] { return turn_ != turn || failed_; });
    if (turn_ != turn) return;
    if (failed_) throw PeerFailed("another rank failed.", "see its message.", kExitFailed);
    if (!in_time) throw TimeoutError("a rank did not come.", "use fewer ranks.");
  }
  void fail() {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int turn_ = 0;
  bool failed_ = false;
};

}  // namespace troupe::bench
