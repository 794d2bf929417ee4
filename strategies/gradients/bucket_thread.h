// BucketThread: sums buckets one after the other while the caller computes the next ones. Free of
// LibTorch.
//
// Thread rule: all members from one thread, the caller's; only `reduce` runs on the other, which is
// at rest between finish() or cancel() and the next begin().
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>

namespace troupe::detail {

class BucketThread {
 public:
  BucketThread() = default;
  /// Waits for the bucket under way; its own deadline ends it.
  ~BucketThread() { cancel(); }
  BucketThread(const BucketThread&) = delete;
  BucketThread& operator=(const BucketThread&) = delete;

  /// From now on buckets are reduced, in order, as release() allows it. What an earlier begin() has
  /// left is cancelled. Throws: EnvironmentError when the system gives no thread.
  void begin(std::function<void(std::size_t)> reduce);
  /// Buckets 0 .. count-1 are complete. `count` never gets smaller.
  void release(std::size_t count);
  /// Takes no further bucket, waits for the one under way and returns how many are reduced: the
  /// rest is the caller's. Blocks: as long as reduce. Throws: what reduce threw.
  [[nodiscard]] std::size_t finish();
  /// The same after a failed backward pass: finish() then returns 0.
  void cancel() noexcept;

 private:
  void reduce_next();
  void close_and_wait();

  std::function<void(std::size_t)> reduce_;
  std::size_t released_ = 0;
  std::atomic<bool> open_{false};                   // further buckets may be taken
  std::size_t reduced_ = 0;                         // the thread's, while it is not at rest
  std::exception_ptr error_;                        // as well
  std::optional<boost::asio::thread_pool> thread_;  // one, from the first begin() on
};

}  // namespace troupe::detail
