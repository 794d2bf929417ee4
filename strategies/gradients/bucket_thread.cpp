#include "troupe/strategies/gradients/bucket_thread.h"

#include <system_error>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"

namespace troupe::detail {

BucketThread::~BucketThread() {
  cancel();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BucketThread::begin(std::function<void(std::size_t)> reduce) {
  cancel();
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error& error) {
      throw EnvironmentError(
          text("the system gives no thread for the exchange of gradients (", error.what(), ")."),
          "raise the limit (ulimit -u), or use --overlap off.");
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  reduce_ = std::move(reduce);
  released_ = 0;
  reduced_ = 0;
  error_ = nullptr;
  open_ = true;
}

void BucketThread::release(std::size_t count) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    released_ = count;
  }
  changed_.notify_all();
}

void BucketThread::close_and_wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  open_ = false;
  // No deadline of its own: what it waits for, one collective, has one.
  changed_.wait(lock, [this] { return !busy_; });
}

std::size_t BucketThread::finish() {
  close_and_wait();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return reduced_;
}

void BucketThread::cancel() noexcept {
  close_and_wait();
  error_ = nullptr;
  reduced_ = 0;
}

void BucketThread::loop() {
  name_this_thread("bucket thread");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    // No deadline: the caller either releases a bucket or stops us, in the destructor.
    changed_.wait(lock, [this] { return stopped_ || (open_ && reduced_ < released_); });
    if (stopped_) return;
    busy_ = true;
    const std::size_t bucket = reduced_;
    lock.unlock();
    std::exception_ptr error;
    try {
      reduce_(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (error) {
      error_ = error;
      open_ = false;
    } else {
      ++reduced_;
    }
    changed_.notify_all();
  }
}

}  // namespace troupe::detail
