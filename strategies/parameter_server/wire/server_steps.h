// ServerSteps: what members do at a server: steps, updates, values, collections.
//
// A frame changes what the keepers know; examine() then does all that has become possible. Requests
// that must wait lie in the keepers until then, so there is one place that answers.
//
// Thread rule: the server's thread only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/distributed/membership/control_lines.h"
#include "troupe/strategies/parameter_server/wire/pace_keeper.h"
#include "troupe/strategies/parameter_server/wire/placement.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"

namespace troupe {

/// Heartbeats of a thread that has no time for them, because it computes. A server answers, counts
/// and computes on one thread. An update of a large shard may take longer than its workers'
/// patience, and is no reason to take the server for lost.
/// Thread rule: the owner's thread, beside the one inside.
class BusyPulse {
 public:
  /// `beat` runs every `interval` during work, on a thread of its own: what it touches the owner
  /// does not touch meanwhile.
  BusyPulse(std::chrono::milliseconds interval, std::function<void()> beat);
  ~BusyPulse();
  BusyPulse(const BusyPulse&) = delete;
  BusyPulse& operator=(const BusyPulse&) = delete;

  /// Runs `work` on the calling thread and gives its result back. Not within another's work.
  template <class Work>
  decltype(auto) during(Work&& work) {
    set(true);
    const std::shared_ptr<void> until_it_ends(nullptr, [this](void*) { set(false); });
    return work();
  }

 private:
  void set(bool busy);
  void run();

  const std::chrono::milliseconds interval_;
  const std::function<void()> beat_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

class ServerSteps {
 public:
  /// All but the pace and `beat` outlive this object; `beat` is how often workers hear of us while
  /// the store works.
  ServerSteps(const Cluster& cluster, const ServerOptions& pace, const ServedModel& model,
              ParameterStore& store, ControlLines& lines, std::chrono::milliseconds beat);

  /// The worker takes part from this clock on. False: it cannot.
  [[nodiscard]] bool enter(int rank, std::uint64_t clock);
  /// It takes part no more: it is lost, or has said goodbye.
  void lose(int rank);
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
  /// As WorkerClocks::give_up.
  void give_up(int rank) { clocks_.give_up(rank); }
  /// The workers that training, which the chief has begun, waits for.
  [[nodiscard]] std::vector<int> absent() const;
  /// What a worker reads when its deadline comes first.
  [[nodiscard]] std::string waits_for(int rank) const;

 private:
  [[nodiscard]] bool take_chief_request(const FrameHeader& header, std::vector<std::byte> payload);
  [[nodiscard]] bool on_push(int rank, std::vector<std::byte> payload);
  [[nodiscard]] bool on_launch(Span<const std::byte> payload);
  void launch_if_complete();
  void apply_round(RoundKeeper::Pushes update);
  void apply(const std::vector<const Push*>& pushes, double scale);
  /// `message`: of the push, which is done with.
  void answer_push(int rank, std::vector<std::byte> message, PushOutcome outcome);
  void fail_on_conflict();
  void send_values(int rank);
  void send_state();
  [[nodiscard]] const std::string& task(int rank) const { return cluster_.member(rank).task; }

  [[nodiscard]] std::int64_t& version(int rank) {
    return versions_[static_cast<std::size_t>(rank)];
  }

  struct Encoded {
    std::int64_t from = -1;
    std::int64_t to = -1;
    std::shared_ptr<const std::vector<std::byte>> bytes;
  };
  /// Of a message to one worker, at a time.
  using Memory = std::shared_ptr<std::vector<std::byte>>;

  const Cluster& cluster_;
  const ServerOptions pace_;
  const ServedModel& model_;
  ParameterStore& store_;
  ControlLines& lines_;
  WorkerClocks clocks_;
  RoundKeeper rounds_;
  PaceKeeper keeper_;
  ChangeLog changes_;
  std::vector<std::int64_t> versions_;      // of the values that each worker has, by rank
  Encoded encoded_;                         // the last values message: often several want the same
  std::vector<Memory> memories_;            // of values messages, by the rank that asked first
  std::vector<std::byte> initial_state_;    // came before launch
  std::optional<Launch> pending_launch_;    // until all workers are here
  std::optional<TargetClocks> collecting_;  // the chief waits for our state
  BusyPulse pulse_;                         // while the store works; last: it uses the lines
};

}  // namespace troupe
