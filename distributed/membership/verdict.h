// Verdict: how a collective that cannot go on ends, whatever its bytes travel by. The chief decides
// what went wrong, so that all workers give the same reason.
#pragma once

#include <string>

#include "distributed/collectives/call.h"
#include "distributed/membership/failure.h"
#include "net/frame.h"

namespace troupe {

/// "all_reduce #4 of 4000 bytes of float32"
[[nodiscard]] std::string describe_collective(const FrameHeader& header);

/// "worker/1 was in all_reduce #4 of 4000 bytes of float32."
[[nodiscard]] std::string place_of_failure(const Cluster& cluster, const FrameHeader& header);

/// This worker is in `mine`, `peer` in `theirs`.
[[nodiscard]] Failure desynchronised(const Cluster& cluster, const FrameHeader& mine, int peer,
                                     const FrameHeader& theirs);

/// The failure that `peer` has not come by the deadline to `mine`; `wait` says who waits for whom:
/// "still waits for worker/1".
[[nodiscard]] Failure timed_out(const Cluster& cluster, const FrameHeader& mine,
                                const Deadline& deadline, int peer, const std::string& wait);

/// Reports `mine` and throws the chief's verdict; without its word, `mine` stands.
/// Blocks: at most a second.
[[noreturn]] void settle(CallEnvironment& environment, const Failure& mine,
                         const std::string& where);

/// The same for a peer whose link broke or whose message was none.
[[noreturn]] void settle_broken(CallEnvironment& environment, const LinkBroken& broken,
                                const std::string& where);

}  // namespace troupe
