// ServerSteps: what those who take part do at a server: steps, updates, values, collections.
//
// A frame changes what the keepers know; examine() then does all that has become possible. Requests
// that must wait lie in the keepers until then, so there is one place that answers.
//
// Thread rule: the server's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/membership/control_lines.h"
#include "distributed/membership/failure_broadcast.h"
#include "options/cluster.h"
#include "servers/wire/busy_pulse.h"
#include "servers/wire/change_log.h"
#include "servers/wire/pace_keeper.h"
#include "servers/wire/parameter_store.h"
#include "servers/wire/placement.h"
#include "servers/wire/row_messages.h"

namespace troupe {

class ServerSteps {
 public:
  /// All but the pace and `beat` outlive this object; `beat` is how often workers hear of us while
  /// the store works.
  ServerSteps(const Cluster& cluster, const Staleness& pace, const ServedModel& model,
              ParameterStore& store, ControlLines& lines, FailureBroadcast& failures,
              std::chrono::milliseconds beat);

  /// The worker takes part from this clock on. False: it cannot.
  [[nodiscard]] bool enter(int rank, std::uint64_t clock);
  /// It takes part no more.
  void leave(int rank);
  /// It has no values, and nothing of it waits.
  void forget(int rank);
  /// A frame of a worker that takes part. False: the protocol does not have it.
  [[nodiscard]] bool take(int rank, const FrameHeader& header, std::vector<std::byte> payload);
  /// Everything that has become possible.
  void examine();

  [[nodiscard]] PaceKeeper& keeper() { return keeper_; }
  [[nodiscard]] const PaceKeeper& keeper() const { return keeper_; }
  [[nodiscard]] const WorkerClocks& clocks() const { return clocks_; }
  /// The chief has begun training, and it waits for workers.
  [[nodiscard]] bool is_launching() const { return pending_launch_.has_value(); }
  [[nodiscard]] std::vector<int> absent() const;
  /// What a worker reads when its deadline comes first.
  [[nodiscard]] std::string waits_for(int rank) const;

 private:
  [[nodiscard]] bool take_chief_request(const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool on_begin(int rank, std::int64_t clock);
  [[nodiscard]] bool on_push(int rank, std::vector<std::byte> payload);
  [[nodiscard]] bool on_launch(Span<const std::byte> payload);
  void launch_if_complete();
  void apply_round(const RoundKeeper::Update& update);
  void apply(const std::vector<const Push*>& pushes, double scale);
  void answer_push(int rank, PushOutcome outcome);
  void fail_on_conflict();
  void send_values(int rank);
  void send_state();
  [[nodiscard]] const std::string& task(int rank) const { return cluster_.member(rank).task; }

  /// What one worker has, and what it waits with.
  struct Worker {
    std::int64_t version = ChangeLog::kNothing;  // of the values it has
    std::optional<ReceivedPush> push;            // waits for its round
  };
  [[nodiscard]] Worker& worker(int rank) { return workers_[static_cast<std::size_t>(rank)]; }

  struct Encoded {
    std::int64_t from = -1;
    std::int64_t to = -1;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };

  const Cluster& cluster_;
  const Staleness pace_;
  const ServedModel& model_;
  ParameterStore& store_;
  ControlLines& lines_;
  FailureBroadcast& failures_;
  WorkerClocks clocks_;
  RoundKeeper rounds_;
  PaceKeeper keeper_;
  ChangeLog changes_;
  std::vector<Worker> workers_;             // by rank
  Encoded encoded_;                         // the last values message: often several want the same
  std::vector<std::byte> initial_state_;    // came before launch
  std::optional<Launch> pending_launch_;    // until all workers are here
  std::optional<TargetClocks> collecting_;  // the chief waits for our state
  BusyPulse pulse_;                         // while the store works; last: it uses the lines
};

}  // namespace troupe
