// ServerClient: a worker's end of the connections to all parameter servers.
//
// A step is begin(), one push() per optimiser used, end(). Values arrive in begin(), and in
// synchronous training in push() as well, always on the calling thread.
//
// Thread rule: one thread calls; abort() from any thread. A network thread keeps the connections
// alive meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/strategy_options.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/worker_group.h"
#include "troupe/strategies/parameter_server/wire/placement.h"
#include "troupe/strategies/parameter_server/wire/server_answers.h"

namespace troupe {

class NetworkThread;
class ServerLinks;
struct PushPlace;

class ServerClient {
 public:
  /// Takes new values into the model; the block is valid during the call.
  using Install = std::function<void(const RowBlock&)>;

  ServerClient(Cluster cluster, GroupOptions options, ServerOptions pace, ServedModel model);
  ~ServerClient();
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  /// Connects to every server. Blocks: at most start_timeout. Throws: RendezvousError naming the
  /// servers that are missing, ConfigError where terms differ, PeerLost, PeerFailed.
  void join(const JoinTerms& terms);

  /// The chief, once: what training starts from, one blob for each server's store.
  /// `data`: by what its data is recognised.
  void start(const std::vector<std::vector<std::byte>>& states, std::int64_t step,
             std::int64_t last_step, const std::string& data = "");
  /// Every other worker, once: waits for the chief's start(). Returns the step that training is at.
  /// Blocks: at most start_timeout.
  [[nodiscard]] std::int64_t wait_for_start();
  /// By what the chief's data is recognised; after that.
  [[nodiscard]] const std::string& chiefs_data() const { return heard_.front().launched->data; }

  /// Waits until the pace allows this worker's next step, and installs what has changed since its
  /// last values. Blocks: at most collective_timeout. Throws: PeerLost, PeerFailed, TimeoutError
  /// naming who is waited for.
  [[nodiscard]] StepAnswer begin(const Install& install);
  /// Sends gradients. Synchronous: returns when the update is made and its values are installed;
  /// else at once, unless the former push is still on its way. False: it was made without a
  /// gradient of any worker.
  bool push(const Push& push, const Install& install);
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
  [[nodiscard]] Traffic traffic() const { return {pushed_, pulled_}; }

  /// Tells the servers why this worker fails, and they everybody. Bounded by a second; never
  /// throws.
  void abort(const std::string& reason, int exit_code) noexcept;
  /// An orderly goodbye. Blocks: at most close_timeout.
  void close();

 private:
  /// Whether a server has answered.
  using Answered = std::function<bool(int server)>;

  [[nodiscard]] int servers() const { return static_cast<int>(cluster_.servers.size()); }
  [[nodiscard]] Heard& heard(int server) { return heard_[static_cast<std::size_t>(server)]; }
  void send(int server, FrameType type, std::int64_t sequence, const std::string& payload = "");
  void send_to_all(FrameType type, std::int64_t sequence, const std::string& payload = "");
  void send_bulk(int server, FrameType type, std::vector<std::byte> payload);
  void send_push(int server, const PushPlace& place, const Push& push);
  /// Takes what servers send, values too, until all have answered. Before training has begun it
  /// logs every few seconds who is waited for. Throws: TimeoutError naming who has not, and `what`
  /// it should do; the inbox's failure.
  void await(const std::string& what, std::chrono::milliseconds limit, const Install& install,
             const Answered& answered);
  void take(Arrival arrival, const Install& install);
  /// The servers that have not, each with what is known about why.
  [[nodiscard]] std::string unanswered(const Answered& answered) const;
  void raise_if_failed() const;

  const Cluster cluster_;
  const GroupOptions options_;
  const ServerOptions pace_;
  const ServedModel model_;
  ClientInbox inbox_;
  std::unique_ptr<NetworkThread> network_;
  std::unique_ptr<ServerLinks> links_;  // null: not yet joining
  std::vector<Heard> heard_;            // by server
  std::int64_t clock_ = 0;
  std::uint32_t pushes_ = 0;  // in this step
  bool is_started_ = false;   // training has begun
  bool dropped_ = false;      // training has ended: this step's gradients do not count
  StepAnswer end_;            // of training, with the reason; without: it goes on
  std::int64_t pushed_ = 0;   // bytes
  std::int64_t pulled_ = 0;   // bytes of values
};

}  // namespace troupe
