#include "troupe/distributed/membership/group_state.h"

namespace troupe {

bool GroupState::fail(const Failure& failure) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return false;
    failure_ = failure;
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  wake_.set();
  return true;
}

std::optional<Failure> GroupState::failure() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

bool GroupState::wait_failed(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_until(lock, std::chrono::steady_clock::now() + limit,
                             [this] { return failure_.has_value(); });
}

void GroupState::raise_if_failed(const std::string& where) const {
  if (const auto found = failure()) raise(*found, cluster, where);
}

void GroupState::advance(GroupPhase phase) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (phase > phase_) phase_ = phase;
  }
  changed_.notify_all();
}

GroupPhase GroupState::phase() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return phase_;
}

bool GroupState::wait_for(GroupPhase phase, const Deadline& deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_until(lock, deadline.when(),
                             [&] { return phase_ >= phase || failure_.has_value(); });
}

}  // namespace troupe
