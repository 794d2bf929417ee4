// NodeLease: until when this node's part of an elastic group may live. Decisions only, without a
// clock.
//
// Node 0 takes a node for gone that it has not heard for kNodeLimit, and lets the others go on. By
// then that node's workers must have ended, and no message can tell: so they live on a lease. Node
// 0 answers beats, and the lease counts from when the last beat that was answered had been *sent*:
// whatever is lost on the way, in one direction or in both, and however late it comes, node 0 has
// heard this node later than that.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>

#include "troupe/launcher/nodes/launch_remote_workers.h"

namespace troupe {

/// Shorter than what node 0 waits by the time that processes take to end after SIGKILL.
inline constexpr std::chrono::milliseconds kNodeLease = kNodeLimit - std::chrono::milliseconds(500);

class NodeLease {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// The hello is sent; whatever node 0 says after that is its answer.
  void begin(TimePoint now) {
    sent_.clear();
    until_ = now + kNodeLease;
  }
  /// A beat is sent. Returns its number.
  [[nodiscard]] std::uint64_t beat(TimePoint now) {
    if (sent_.size() == kMostUnanswered) sent_.erase(sent_.begin());
    sent_[++number_] = now;
    return number_;
  }
  /// Node 0 has answered beat `number`.
  void answered(std::uint64_t number) {
    const auto found = sent_.find(number);
    if (found == sent_.end()) return;
    until_ = std::max(until_, found->second + kNodeLease);
    sent_.erase(sent_.begin(), std::next(found));
  }
  [[nodiscard]] TimePoint until() const { return until_; }

 private:
  static constexpr std::size_t kMostUnanswered = 64;

  std::map<std::uint64_t, TimePoint> sent_;  // that no answer to, or to a later one, has come
  std::uint64_t number_ = 0;
  TimePoint until_{};
};

}  // namespace troupe
