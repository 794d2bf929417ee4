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
#include <vector>

#include "core/clock.h"
#include "distributed/collectives/stream.h"
#include "distributed/membership/group_state.h"
#include "net/link.h"

namespace troupe {

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
  [[nodiscard]] const std::string& task(int rank) const;

  CallEnvironment& environment_;
  CallStreams& streams_;
  FrameHeader header_;
  const Deadline& deadline_;
};

}  // namespace troupe
