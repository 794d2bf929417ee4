// Waiting for another library's collective so that the group stays in charge: its failures and the
// deadline end the wait, and every wait is counted and named as a collective of the group.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/distributed/worker_group.h"

namespace troupe::detail {

/// Whether the processor is let go while waiting. `brief` for libraries that move bytes only while
/// they are asked whether they are done; `growing` for those with threads or devices of their own.
enum class Pause { brief, growing };

/// A library reported an error, most often because a peer is gone. Waits for the group to learn
/// who, and throws that; else PeerLost with the library's `message`. `doing` is a phrase:
/// "all_reduce by gloo of x".
[[noreturn]] void library_failed(WorkerGroup& group, const std::string& doing,
                                 const std::string& message);

/// One sum by another library.
class EngineWait {
 public:
  /// Meets the others: on return all of them have entered the same sum, and only bytes are left to
  /// wait for. `engine` and `what` are for messages.  Collective: yes.  Throws: as WorkerGroup.
  EngineWait(WorkerGroup& group, const char* engine, const std::string& what,
             std::uint64_t total_bytes);

  /// Asks `done` until it says so.
  /// Throws: what the group has learnt of; TimeoutError, which the others then see as PeerFailed.
  void until(const std::function<bool()>& done, Pause pause) const;

  /// See library_failed.
  [[noreturn]] void failed(const std::string& message) const {
    library_failed(group_, doing_, message);
  }

 private:
  WorkerGroup& group_;
  std::string doing_;  // "all_reduce by gloo of apply_gradients (...)"
  Deadline deadline_;
};

}  // namespace troupe::detail
