// ServerAnswers: what servers have said and the calling thread has not used yet, and the one place
// where that thread waits for them.
//
// Thread rule: the thread that calls ServerClient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "options/cluster.h"
#include "servers/wire/client_inbox.h"
#include "servers/wire/parameter_store.h"
#include "servers/wire/placement.h"
#include "servers/wire/server_messages.h"

namespace troupe {

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
