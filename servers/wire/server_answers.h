// ServerAnswers: what servers have said and the calling thread has not used yet, and the one place
// where that thread waits for them. ClientInbox is how they get there from the network thread.
//
// Thread rule: the thread that calls ServerClient, but for the inbox.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "distributed/membership/failure.h"
#include "net/frame.h"
#include "options/cluster.h"
#include "servers/wire/parameter_store.h"
#include "servers/wire/placement.h"
#include "servers/wire/server_messages.h"

namespace troupe {

/// A frame that a server sent.
struct Arrival {
  int server = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
};

/// What a worker's network thread hands to the thread that trains. Frames come out in the order in
/// which each server sent them. The first failure stays and ends every wait.
/// Thread rule: every member may be called from any thread.
class ClientInbox {
 public:
  void deliver(Arrival arrival);
  /// False: there was a failure before.
  bool fail(const Failure& failure);
  [[nodiscard]] std::optional<Failure> failure() const;
  /// Waits for the next frame; none when something failed or the deadline came first.
  [[nodiscard]] std::optional<Arrival> next(const Deadline& deadline);
  /// Waits for a failure; true when there is one.
  bool wait_failed(const Deadline& deadline);

  /// Pushes that are on their way to a server's socket.
  void push_posted(int server);
  void push_written(int server);
  /// False when something failed or the deadline came first.
  [[nodiscard]] bool wait_written(int server, const Deadline& deadline);

  /// The last thing that was heard about why a server does not answer; "" clears it.
  void note(int server, const std::string& text);
  [[nodiscard]] std::string note_of(int server) const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrival> arrivals_;
  std::optional<Failure> failure_;
  std::map<int, int> unwritten_;      // pushes by server
  std::map<int, std::string> notes_;  // by server
};

/// What one server has said that has not been used yet.
struct Heard {
  std::optional<std::int64_t> entry;
  bool entered = false;
  std::optional<std::int64_t> launched;
  std::optional<StepAnswer> step;
  std::optional<PushOutcome> push;
  std::optional<TargetClocks> held;
  std::vector<std::byte> state;
  std::optional<std::int64_t> collected;
  std::optional<PaceStatistics> statistics;
  bool goodbye = false;
};

class ServerAnswers {
 public:
  using Install = std::function<void(const RowBlock&)>;
  /// Whether a server has answered.
  using Answered = std::function<bool(int server)>;

  /// All outlive this object.
  ServerAnswers(const Cluster& cluster, const ServedModel& model, ClientInbox& inbox)
      : cluster_(cluster), model_(model), inbox_(inbox), heard_(cluster.servers.size()) {}

  /// What to do when a server sends what the protocol does not have; ends in a failure.
  void on_malformed(std::function<void(int server)> handler) { malformed_ = std::move(handler); }

  [[nodiscard]] Heard& of(int server) { return heard_[static_cast<std::size_t>(server)]; }
  [[nodiscard]] std::vector<Heard>& all() { return heard_; }
  /// Takes what servers send, values too, until all have answered.
  /// Throws: TimeoutError naming who has not, and `what` it should do; the inbox's failure.
  void await(const std::string& what, const Deadline& deadline, const Install& install,
             const Answered& answered);
  /// The servers that have not, each with what is known about why.
  [[nodiscard]] std::string unanswered(const Answered& answered) const;
  /// Bytes of values so far.
  [[nodiscard]] std::int64_t pulled() const { return pulled_; }

 private:
  [[nodiscard]] int servers() const { return static_cast<int>(heard_.size()); }
  void take(Arrival arrival, const Install& install);
  [[nodiscard]] bool install_values(const Arrival& arrival, const Install& install);

  const Cluster& cluster_;
  const ServedModel& model_;
  ClientInbox& inbox_;
  std::vector<Heard> heard_;  // by server
  std::function<void(int server)> malformed_;
  std::int64_t pulled_ = 0;
};

}  // namespace troupe
