#include "troupe/strategies/replica_threads.h"

#include <system_error>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/spin.h"
#include "troupe/core/trace.h"

namespace troupe::detail {
namespace {

constexpr const char* kCallEqually =
    "make the hooks call apply_gradients equally often, in the same order, on every replica.";

}  // namespace

ReplicaThreads::ReplicaThreads(Options options)
    : options_(std::move(options)),
      where_(static_cast<std::size_t>(options_.replicas), Where::ended),
      errors_(where_.size()),
      let_go_(where_.size()) {
  TROUPE_CHECK(options_.replicas >= 1);
  try {
    for (int i = 1; i < size(); ++i) threads_.emplace_back([this, i] { loop(i); });
  } catch (const std::system_error& error) {
    stop();
    throw EnvironmentError(
        text("the system gives no thread for ", size(), " replicas (", error.what(), ")."),
        "raise the limit (ulimit -u), or use fewer --devices.");
  }
}

ReplicaThreads::~ReplicaThreads() { stop(); }

void ReplicaThreads::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  announce();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ReplicaThreads::loop(int replica) {
  if (options_.start_thread) options_.start_thread(replica);
  for (std::uint64_t done = 0;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto called = [&] { return stopped_ || run_ != done; };
    spin(lock, called);
    // No deadline: the caller either runs something or stops us, in the destructor.
    changed_.wait(lock, called);
    if (stopped_) return;
    done = run_;
    lock.unlock();
    execute(replica);
  }
}

void ReplicaThreads::run(const std::function<void(int)>& work) {
  if (size() == 1) {
    work(0);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TROUPE_CHECK(work_ == nullptr);
    work_ = &work;
    ++run_;
    arrived_ = 0;
    ended_ = 0;
    failure_.reset();
    where_.assign(where_.size(), Where::working);
    let_go_.assign(let_go_.size(), 0);
  }
  announce();
  execute(0);

  std::vector<std::exception_ptr> errors(errors_.size());
  {
    const Traced traced("wait for replicas");
    std::unique_lock<std::mutex> lock(mutex_);
    wait_for_all(lock);
    work_ = nullptr;
    errors.swap(errors_);
  }
  std::exception_ptr error;
  for (std::size_t i = errors.size(); i-- > 0;) {
    const bool is_cause = errors[i] && let_go_[i] == 0;
    if (is_cause || (errors[i] && !error)) error = errors[i];
  }
  if (error) std::rethrow_exception(error);
}

void ReplicaThreads::wait_for_all(std::unique_lock<std::mutex>& lock) {
  const auto all_ended = [this] { return ended_ == size(); };
  spin(lock, all_ended);
  // A thread cannot be stopped from outside, and its replica must outlive it: there is no way on
  // without it. Say who it is.
  while (!changed_.wait_for(lock, options_.timeout, all_ended)) {
    if (failure_) {
      log_error(failure_->cause, " The run cannot end before ", names(Where::working),
                " is out of its step.");
    } else {
      log_warning("still waiting for the step of ", names(Where::working));
    }
  }
}

void ReplicaThreads::execute(int replica) {
  const auto i = static_cast<std::size_t>(replica);
  std::exception_ptr error;
  try {
    (*work_)(replica);
  } catch (const std::exception& thrown) {
    error = std::current_exception();
    fail_with(replica, thrown);
  } catch (...) {
    error = std::current_exception();
    fail_with(replica, std::runtime_error("an exception that is no std::exception"));
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    errors_[i] = std::move(error);
    where_[i] = Where::ended;
    ++ended_;
    if (arrived_ > 0) {
      fail(DesyncError(text(name(replica), " ended its step, and ", names(Where::meeting),
                            " is in ", meeting_for_, "."),
                       kCallEqually));
    }
  }
  announce();
}

void ReplicaThreads::fail_with(int replica, const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  const std::string what = ours != nullptr ? ours->cause() : error.what();
  const PeerFailed failure(
      text(name(replica), " failed: ", ours != nullptr ? what : what.substr(0, what.find('\n'))),
      ours != nullptr ? ours->fix() : "look at that replica's error.",
      ours != nullptr ? ours->exit_code() : kExitFailed);
  const std::lock_guard<std::mutex> lock(mutex_);
  fail(failure);
}

template <class E>
void ReplicaThreads::fail(const E& error) {
  if (!failure_) {  // the first one is the reason
    failure_ = Failure{error.cause(), [error] { throw E(error); }, std::is_same_v<E, PeerFailed>};
  }
  announce();
}

void ReplicaThreads::let_go(int replica) {
  const auto i = static_cast<std::size_t>(replica);
  where_[i] = Where::working;
  let_go_[i] = failure_->is_a_replicas ? 1 : 0;
  failure_->raise();
}

void ReplicaThreads::meet(int replica, const std::string& where) {
  if (size() == 1) return;
  const Traced traced("wait for replicas");
  std::unique_lock<std::mutex> lock(mutex_);
  if (failure_) let_go(replica);
  if (ended_ > 0) {
    fail(DesyncError(
        text(names(Where::ended), " ended its step, and ", name(replica), " is in ", where, "."),
        kCallEqually));
    let_go(replica);
  }
  if (arrived_ > 0 && where != meeting_for_) {
    fail(DesyncError(text(name(replica), " is in ", where, ", and ", names(Where::meeting), " in ",
                          meeting_for_, "."),
                     "make the hooks call apply_gradients in the same order, for the same "
                     "parameters, on every replica."));
    let_go(replica);
  }
  const std::uint64_t mine = meeting_;
  meeting_for_ = where;
  where_[static_cast<std::size_t>(replica)] = Where::meeting;
  if (++arrived_ == size()) {
    arrived_ = 0;
    ++meeting_;
    where_.assign(where_.size(), Where::working);
    lock.unlock();
    announce();
    return;
  }
  const auto met = [&] { return meeting_ != mine || failure_; };
  spin(lock, met);
  const bool over = changed_.wait_for(lock, options_.timeout, met);
  if (meeting_ != mine) return;
  if (!over) {
    fail(TimeoutError(text(names(Where::working), " did not reach ", where, " within ",
                           Seconds(options_.timeout).count(), " s."),
                      "look where its step spends the time, or raise --timeout."));
  }
  let_go(replica);
}

void ReplicaThreads::announce() {
  changes_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
}

/// Returns, holding `lock`, when `done` or when it is time to sleep.
template <class Done>
void ReplicaThreads::spin(std::unique_lock<std::mutex>& lock, const Done& done) {
  bool worth_it = options_.spin.count() > 0;
  while (worth_it && !done()) {
    // What changes `done` does so under the lock and is announced after that.
    const std::uint64_t seen = changes_.load(std::memory_order_acquire);
    lock.unlock();
    worth_it =
        spin_until([&] { return changes_.load(std::memory_order_acquire) != seen; }, options_.spin);
    lock.lock();
  }
}

std::string ReplicaThreads::name(int replica) const {
  return text("replica ", options_.first + replica);
}

std::string ReplicaThreads::names(Where where) const {
  std::string all;
  for (int i = 0; i < size(); ++i) {
    if (where_[static_cast<std::size_t>(i)] != where) continue;
    all += all.empty() ? name(i) : text(", ", name(i));
  }
  return all;
}

}  // namespace troupe::detail
