// LateQueue: work that runs in order on a thread of its own, as a device's stream does.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::testing {

class LateQueue {
 public:
  LateQueue() : thread_([this] { loop(); }) {}
  ~LateQueue() {
    add(nullptr);
    thread_.join();
  }
  LateQueue(const LateQueue&) = delete;
  LateQueue& operator=(const LateQueue&) = delete;

  void add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_one();
  }
  /// Blocks until all that is in it has run.
  void finish() {
    std::promise<void> done;
    add([&done] { done.set_value(); });
    done.get_future().wait();
  }

 private:
  void loop() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;  // last: it reads what is above
};

}  // namespace troupe::testing
