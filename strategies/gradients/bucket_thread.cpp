#include "troupe/strategies/gradients/bucket_thread.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"

namespace troupe::detail {

void BucketThread::begin(std::function<void(std::size_t)> reduce) {
  cancel();
  if (!thread_) {
    try {
      thread_.emplace(1);
    } catch (const std::exception& error) {
      throw EnvironmentError(
          text("the system gives no thread for the exchange of gradients (", error.what(), ")."),
          "raise the limit (ulimit -u), or use --overlap off.");
    }
    boost::asio::post(*thread_, [] { name_this_thread("bucket thread"); });
  }
  reduce_ = std::move(reduce);
  released_ = 0;
  open_ = true;
}

void BucketThread::release(std::size_t count) {
  for (; released_ < count; ++released_) boost::asio::post(*thread_, [this] { reduce_next(); });
}

void BucketThread::reduce_next() {
  if (!open_) return;
  try {
    reduce_(reduced_);
    ++reduced_;
  } catch (...) {
    error_ = std::current_exception();
    open_ = false;
  }
}

void BucketThread::close_and_wait() {
  open_ = false;
  // No deadline of its own: what it waits for, one collective, has one.
  if (thread_) boost::asio::post(*thread_, boost::asio::use_future).get();
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

}  // namespace troupe::detail
