// ServerClient: a worker's end of the connections to all parameter servers.
//
// A step is begin(), one push() per optimiser used, end(). Values arrive in begin(), and in
// synchronous training in push() as well, always on the calling thread.
//
// Thread rule: one thread calls; abort() from any thread. A network thread keeps the connections
// alive meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "servers/wire/parameter_server.h"

namespace troupe {

class ServerClient {
 public:
  /// Takes new values into the model; the block is valid during the call.
  using Install = std::function<void(const RowBlock&)>;

  ServerClient(Cluster cluster, GroupOptions options, Staleness pace, ServedModel model);
  ~ServerClient();
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  /// Connects to every server. Blocks: at most start_timeout. Throws: RendezvousError naming the
  /// servers that are missing, ConfigError where terms differ, PeerLost, PeerFailed.
  void join(const JoinTerms& terms);

  /// The chief, once: what training starts from, one blob for each server's store.
  void start(const std::vector<std::vector<std::byte>>& states, std::int64_t step,
             std::int64_t last_step);
  /// Every other worker, once: waits for the chief's start(). Returns the step that training is at.
  /// Blocks: at most start_timeout.
  [[nodiscard]] std::int64_t wait_for_start();

  /// A step that may be taken, or the reason why there is none.
  struct Begun {
    std::optional<std::int64_t> step;  // its number
    std::int64_t last_step = 0;        // without step: updates of all workers, when it ended
    std::string ended;
  };
  /// Waits until the pace allows this worker's next step, and installs what has changed since its
  /// last values. Where the pace lets it prefetch it asks for the values of the step after it, too,
  /// so that they travel while this one computes. Blocks: at most collective_timeout. Throws:
  /// PeerLost, PeerFailed, TimeoutError naming who is waited for.
  [[nodiscard]] Begun begin(const Install& install);
  /// Sends gradients. Synchronous: returns when the update is made and its values are installed;
  /// else at once, unless the former push is still on its way.
  void push(const Push& push, const Install& install);
  /// The step's pushes are complete.
  void end();

  /// State of all servers' stores at one moment between updates, and the number of updates then.
  struct Collected {
    std::int64_t step = 0;
    std::vector<std::vector<std::byte>> states;  // by server
  };
  /// The chief, between steps: holds all workers back until every step that was begun has ended.
  /// What begin() installs afterwards is newer. Blocks: at most collective_timeout.
  [[nodiscard]] Collected collect(const Install& install);

  /// The chief: training is over for all, `reason` says why. Returns what the servers counted.
  /// Blocks: at most close_timeout for workers to leave.
  PaceStatistics finish(const std::string& reason);

  /// Bytes of pushes and values over all servers, since start.
  struct Traffic {
    std::int64_t pushed = 0;
    std::int64_t pulled = 0;
  };
  [[nodiscard]] Traffic traffic() const;

  /// Tells the servers why this worker fails, and they everybody. Bounded by a second; never
  /// throws.
  void abort(const std::string& reason, int exit_code) noexcept;
  /// An orderly goodbye. Blocks: at most close_timeout.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
