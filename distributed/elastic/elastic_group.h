// ElasticGroup: the worker group of the present round, and the way to the next one when a worker is
// lost or another one comes.
//
// What workers do together is a sequence of *transactions*: a step, a validation batch, a vote, ...
// Each ends with one collective, whose *outcome* is short and the same on every worker. A worker
// that has the outcome has completed the transaction, and with that it knows that all others have
// entered the last collective: whatever came before, they have, too. So after a loss survivors are
// at most one transaction apart. The next round begins with an exchange of numbers and outcomes:
// who waits for an outcome that another one has takes it over, and otherwise all do the transaction
// again. Nothing is repeated that somebody has completed, and no large state moves.
//
// The rule for those who use it: until commit(), a transaction changes nothing that it reads.
//
// Thread rule: one thread, but for what Rounds calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/clock.h"
#include "troupe/core/failure.h"
#include "troupe/core/options/cluster.h"
#include "troupe/core/span.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/elasticity.h"
#include "troupe/distributed/elastic/round_messages.h"
#include "troupe/distributed/elastic/rounds.h"
#include "troupe/distributed/worker_group.h"

namespace troupe {

/// A loss was healed, and the transaction under way is to be done again by the workers of the
/// present round. Not an error: whoever began the transaction catches it.
struct RepeatTransaction : ControlFlow {};

/// How far a worker has come in its group's sequence of transactions, and the outcome of the last
/// one that it has completed.
class Outcomes {
 public:
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  [[nodiscard]] const std::vector<std::byte>& last() const { return last_; }

  /// A transaction is complete.
  void add(Span<const std::byte> outcome);
  /// Where a round begins: every worker comes as far as the one that has come farthest. `holds`:
  /// this worker holds the run's state, so it is at most one transaction behind; others adopt the
  /// number. Shapes: outcomes of WorkerGroup::kMaxGatherBytes at most.
  /// Collective: yes.  Throws: as WorkerGroup::all_gather.
  void exchange(WorkerGroup& group, bool holds, const Deadline& deadline);

 private:
  std::uint64_t completed_ = 0;
  std::vector<std::byte> last_;
};

/// What an elastic group asks of its owner, and tells it.
struct ElasticEvents {
  /// The present round is another one: group() and cluster() have changed. What was made of the
  /// former group is of no use, but may be destroyed later.
  std::function<void()> on_round;
  /// Adds to `mine` the step, and what the worker `lost_rank` of the round that has ended was
  /// computing.
  std::function<void(Readiness& mine, int lost_rank)> describe;
  std::function<bool()> leads = nullptr;  // see lead_if()
};

class ElasticGroup final : public Elasticity {
 public:
  using Events = ElasticEvents;

  /// `rounds` null: there is one round, and a loss is an error, as in any WorkerGroup.
  /// Throws and blocks: as WorkerGroup's constructor.
  ElasticGroup(Cluster cluster, const GroupOptions& options, std::unique_ptr<Rounds> rounds,
               Events events = {});
  ~ElasticGroup() override;
  ElasticGroup(const ElasticGroup&) = delete;
  ElasticGroup& operator=(const ElasticGroup&) = delete;

  [[nodiscard]] WorkerGroup& group() { return *group_; }
  /// Of the present round.
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] bool is_elastic() const { return rounds_ != nullptr; }
  [[nodiscard]] bool is_joining() const override { return joins_; }
  [[nodiscard]] bool joiners_wait() const override {
    return trainings_.begun == 1 && rounds_->joiners_wait();
  }
  [[nodiscard]] std::optional<Departure> departure(bool is_told) override {
    if (is_told) rounds_->ask_to_leave();
    return rounds_->departure();
  }
  [[nodiscard]] std::vector<GroupChange> take_changes() override {
    return std::exchange(changes_, {});
  }
  void lead_if(std::function<bool()> leads) override { events_.leads = std::move(leads); }

  // Between two rounds, where Rounds::next() throws, there is no group: only destruction, abort()
  // and close() may follow.

  /// Meets the first round.  As WorkerGroup::join.
  void join(const JoinTerms& terms);
  void start() override;
  void end() override { trainings_.chief_of_last = cluster_.member(0).task; }

  /// Runs `collective`, which ends the transaction and leaves its outcome in `outcome`. After a
  /// loss the next round begins here, and the outcome is another worker's, if one has it.
  /// Collective: yes.  Throws: RepeatTransaction; what `collective` throws, if that is no loss.
  void conclude(Span<std::byte> outcome, const std::function<void()>& collective);
  /// The transaction is complete; `outcome`: what the last conclude() gave.
  void commit(Span<const std::byte> outcome);
  /// A transaction that changes nothing but its outcome: `attempt` returns it, and is called again
  /// after a loss.
  [[nodiscard]] std::vector<std::byte> agree(
      const std::function<std::vector<std::byte>()>& attempt);
  /// In the handler of what a collective of a transaction threw, of one before its last one:
  /// begins the next round, in which all do the transaction again.  Throws: `error` again, if that
  /// is no loss or losses are not healed.
  void heal(const NetError& error);

  /// As WorkerGroup::abort, and nothing where there is no group between two rounds.
  void abort(const std::string& reason, int exit_code) noexcept;
  /// As WorkerGroup::close. What was to be done together is done: a loss is none any longer.
  void close();

  void admit(const std::function<void()>& share) override;
  void leave() override;
  void enter(const std::function<void()>& share) override;

 private:
  void begin_round(Readiness mine);
  void enter_round(const Round& round);
  void share_state(const std::function<void()>& share);

  const GroupOptions options_;
  const Cluster first_;  // as this process was told
  const UniqueFd listener_;
  Events events_;
  JoinTerms terms_;
  Cluster cluster_;
  std::unique_ptr<WorkerGroup> group_;
  std::mutex replacing_;            // group_ and what follows, while another thread may end it
  RoundLoss loss_;                  // the last one that was told
  std::uint64_t round_;             // 0: none yet
  std::uint64_t completed_in_ = 0;  // the round in which this worker completed its last transaction
  bool joins_ = false;
  bool heals_ = false;
  struct {
    int begun = 0;
    std::string chief_of_last;  // which has ended; empty: none has, and any worker may be the chief
  } trainings_;
  bool has_joiners_ = false;  // the round: members that did not hold the state when it began
  Outcomes outcomes_;
  bool taken_over_ = false;  // the outcome of the last conclude()
  std::vector<GroupChange> changes_;
  std::unique_ptr<Rounds> rounds_;  // last: its thread ends first
};

}  // namespace troupe
