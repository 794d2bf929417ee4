// Call: one collective in progress on this worker. The algorithms build streams with it and let it
// run them; what goes wrong leaves run() as one of Troupe's errors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "distributed/group_state.h"
#include "distributed/stream.h"
#include "net/link.h"

namespace troupe {

/// What collectives need of the group; lives as long as the group is joined.
struct CallEnvironment {
  GroupState& state;
  std::map<int, Link>& links;  // by peer
  Span<std::byte> scratch;     // kScratchBytes, aligned to 64
  std::chrono::microseconds spin;
  /// Tells the control plane: what this process found, or whose link broke.
  std::function<void(const Failure&)> report;
  std::function<void(int peer, const std::string& what)> suspect;
};

/// Also the largest message of recursive doubling: see kDoublingMaxBytes.
inline constexpr std::size_t kScratchBytes = std::size_t{256} * 1024;

class Call {
 public:
  /// `header` names operation, dtype, root and total bytes; the rest is filled in here.
  Call(CallEnvironment& environment, const FrameHeader& header, const Deadline& deadline);

  [[nodiscard]] int rank() const { return environment_.state.cluster.rank; }
  [[nodiscard]] int world_size() const { return environment_.state.cluster.world_size(); }
  [[nodiscard]] Span<std::byte> scratch() const { return environment_.scratch; }

  [[nodiscard]] SendStream send_to(int peer, std::uint64_t payload_bytes);
  [[nodiscard]] ReceiveStream receive_from(int peer, std::uint64_t payload_bytes);

  /// Runs until all streams are done.
  /// Throws: PeerLost, PeerFailed, TimeoutError, DesyncError.
  void run(std::vector<SendStream*> sends, std::vector<ReceiveStream*> receives);

 private:
  using Sends = std::vector<SendStream*>;
  using Receives = std::vector<ReceiveStream*>;
  void progress_until_done(const Sends& sends, const Receives& receives);
  void sleep(const Sends& sends, const Receives& receives);
  void check(const Sends& sends, const Receives& receives);
  [[noreturn]] void settle(const Failure& mine);
  [[noreturn]] void settle_broken(const LinkBroken& broken);
  [[nodiscard]] Failure timed_out(const Sends& sends, const Receives& receives) const;
  [[nodiscard]] Failure desynchronised(const Mismatch& mismatch) const;
  [[nodiscard]] std::string where() const;
  [[nodiscard]] const std::string& task(int rank) const;

  CallEnvironment& environment_;
  FrameHeader header_;
  const Deadline& deadline_;
};

}  // namespace troupe
