// Call: one collective in progress on this worker. The algorithms build streams with it and let it
// run them; what goes wrong leaves run() as one of Troupe's errors.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/distributed/collectives/stream.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/membership/group_state.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/link.h"

namespace troupe {

// CollectiveLabel: what a collective is for, so that two that are alike but mean other values (the
// gradients of two optimisers of one size) are told apart as any other mismatch is.
//
// It is a thread's own state, not an argument: what is summed is known far above the engines, and
// every collective that an engine makes for it (a barrier before another library's sum) has it.

/// 32 bits of what a collective is for.
[[nodiscard]] std::uint32_t label_of(const std::string& what);

/// While it lives, collectives that this thread enters are for `what`, the same on every rank; 32
/// bits of it travel with them.  Throws, by those collectives: DesyncError where ranks differ.
class CollectiveLabel {
 public:
  explicit CollectiveLabel(std::uint32_t label) : former_(std::exchange(present, label)) {}
  explicit CollectiveLabel(const std::string& what) : CollectiveLabel(label_of(what)) {}
  ~CollectiveLabel() { present = former_; }
  CollectiveLabel(const CollectiveLabel&) = delete;
  CollectiveLabel& operator=(const CollectiveLabel&) = delete;

  /// This thread's; 0 where there is none.
  [[nodiscard]] static std::uint32_t of_this_thread() { return present; }

 private:
  static inline thread_local std::uint32_t present = 0;
  const std::uint32_t former_;
};

/// The streams of this worker, kept from message to message.
struct CallStreams {
  struct Port {
    Link* link = nullptr;
    SendStream send;
    ReceiveStream receive;
  };
  std::vector<Port> ports;  // by peer
  std::vector<SendStream*> sends;
  std::vector<ReceiveStream*> receives;
  std::vector<pollfd> waits;
};

/// What collectives need of the group; lives as long as the group is joined.
struct CallEnvironment {
  GroupState& state;
  std::map<int, Link>& links;              // by peer
  Span<std::byte> scratch;                 // kScratchBytes, aligned to 64
  std::chrono::microseconds spin;          // as in GroupOptions; 0 where cores are shared
  std::chrono::microseconds arrival_spin;  // the same
  /// Tells the control plane: what this process found, or whose link broke.
  std::function<void(const Failure&)> report;
  std::function<void(int peer, const std::string& what)> suspect;
  CallStreams streams = {};
};

/// What has come and is to be added. Half of a core's level-2 cache on the reference machine.
inline constexpr std::size_t kScratchBytes = std::size_t{1024} * 1024;

class Call {
 public:
  /// `header` names operation, dtype, root and total bytes; the rest is filled in here.
  Call(CallEnvironment& environment, const FrameHeader& header, const Deadline& deadline);

  [[nodiscard]] int rank() const { return environment_.state.cluster.rank; }
  [[nodiscard]] int world_size() const { return environment_.state.cluster.world_size(); }
  [[nodiscard]] Span<std::byte> scratch() const { return environment_.scratch; }

  /// A message that the next run() moves; at most one each way and peer.
  SendStream& send_to(int peer, std::uint64_t payload_bytes);
  ReceiveStream& receive_from(int peer, std::uint64_t payload_bytes);

  /// Runs until all messages since the last run() have gone and come.
  /// Throws: PeerLost, PeerFailed, TimeoutError, DesyncError.
  void run();

 private:
  CallStreams::Port& port(int peer);
  bool advance();
  [[nodiscard]] bool done() const;
  void progress_until_done();
  /// Whether a peer has come to what this run() is for.
  [[nodiscard]] bool has_arrived() const;
  void sleep();
  void check();
  [[nodiscard]] Failure timed_out() const;
  [[nodiscard]] std::string where() const;

  CallEnvironment& environment_;
  CallStreams& streams_;
  FrameHeader header_;
  const Deadline& deadline_;
};

// Verdict: how a collective that cannot go on ends, whatever its bytes travel by. The chief decides
// what went wrong, so that all workers give the same reason.

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
