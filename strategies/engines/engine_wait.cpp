#include "troupe/strategies/engines/engine_wait.h"

#include <algorithm>
#include <thread>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

using std::chrono::microseconds;

// A pause is a part of the wait so far: it adds at most so much to it, and soon costs nothing.
constexpr int kPartOfWait = 16;
constexpr microseconds kSpin{100};
constexpr microseconds kLongestPause{1'000};
// For the verdict of the chief after the silence that it waits for.
constexpr std::chrono::milliseconds kVerdictWait{2'000};

std::string where(const WorkerGroup& group, const std::string& doing) {
  return text(group.task(group.rank()), " was in ", doing, ".");
}

}  // namespace

EngineWait::EngineWait(WorkerGroup& group, const char* engine, const std::string& what,
                       std::uint64_t total_bytes)
    : group_(group),
      doing_(text("all_reduce by ", engine, " of ", what)),
      deadline_(Deadline::in(group.options().collective_timeout)) {
  group_.barrier(deadline_, total_bytes);
}

void EngineWait::until(const std::function<bool()>& done, Pause pause) const {
  const auto began = std::chrono::steady_clock::now();
  while (!done()) {
    group_.check(where(group_, doing_));
    if (deadline_.expired()) {
      const std::string cause =
          text(doing_, ": not done after ", deadline_.elapsed_seconds(), " s (limit ",
               deadline_.limit_seconds(), " s), though every worker had entered it.");
      group_.abort(cause, kExitPeerLost);
      throw TimeoutError(cause,
                         "look at the network between the workers; raise --timeout if "
                         "it is only slow, or use --communication native.");
    }
    const auto waited =
        std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - began);
    if (pause == Pause::brief || waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(waited / kPartOfWait, kLongestPause));
    }
  }
}

void library_failed(WorkerGroup& group, const std::string& doing, const std::string& message) {
  const Deadline verdict = Deadline::in(group.options().heartbeat_timeout + kVerdictWait);
  while (!verdict.expired()) {
    group.check(where(group, doing));
    std::this_thread::sleep_for(kLongestPause);
  }
  const std::string cause = text(doing, " failed: ", message.substr(0, message.find('\n')), ".");
  group.abort(cause, kExitPeerLost);
  throw PeerLost(cause, "start the whole group again, or use --communication native.");
}

}  // namespace troupe::detail
