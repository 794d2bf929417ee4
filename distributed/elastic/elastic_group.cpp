#include "troupe/distributed/elastic/elastic_group.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "troupe/core/check.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/call.h"

namespace troupe {
namespace {

/// What a round's group listens on: a copy, which that closes.
void offer(Cluster& cluster, const UniqueFd& listener) {
  if (listener.get() < 0 || cluster.world_size() == 1) return;
  const int copy = fcntl(listener.get(), F_DUPFD_CLOEXEC, 0);  // NOLINT
  if (copy < 0) {
    throw EnvironmentError(text("cannot copy a listening socket: ", std::strerror(errno), "."),
                           "raise the limit of open files (ulimit -n).");
  }
  cluster.listener = detail::InheritedSocket(copy);
}

/// Of one that waits: it meets nobody.
Cluster alone(const Cluster& told) {
  Cluster cluster;
  cluster.members = {told.member(told.rank)};
  cluster.generation = told.generation;
  cluster.evaluator = told.evaluator;
  cluster.origin = told.origin;
  return cluster;
}

/// Of a round, as a process sees it that was told `first` when it started.
Cluster cluster_of(const Round& round, const Cluster& first) {
  Cluster cluster;
  cluster.rank = round.rank;
  cluster.members.clear();
  for (const Round::Member& member : round.members)
    cluster.members.push_back({member.task, std::nullopt});
  cluster.members.front().address = round.members.front().address;
  cluster.generation = round.generation;
  const auto own = static_cast<std::size_t>(round.rank);
  cluster.on_this_machine = static_cast<int>(
      std::count_if(round.members.begin(), round.members.end(), [&](const Round::Member& member) {
        return member.address.host == round.members[own].address.host;
      }));
  cluster.evaluator = first.evaluator;
  cluster.origin = first.origin;
  return cluster;
}

/// Of a task; -1: it is not there.
int rank_of(const std::string& task, const Cluster& cluster) {
  const auto found = std::find_if(cluster.members.begin(), cluster.members.end(),
                                  [&](const Member& member) { return member.task == task; });
  return found == cluster.members.end() ? -1 : static_cast<int>(found - cluster.members.begin());
}

/// Tasks of one cluster that the other one lacks.
std::vector<std::string> only_in(const Cluster& one, const Cluster& other) {
  std::vector<std::string> tasks;
  for (const Member& member : one.members)
    if (rank_of(member.task, other) < 0) tasks.push_back(member.task);
  return tasks;
}

/// Another worker is gone, or does not do its part. What a worker said before it left is none.
bool is_loss(const NetError& error) { return dynamic_cast<const PeerFailed*>(&error) == nullptr; }

}  // namespace

void Outcomes::add(Span<const std::byte> outcome) {
  ++completed_;
  last_.assign(outcome.begin(), outcome.end());
}

void Outcomes::exchange(WorkerGroup& group, bool holds, const Deadline& deadline) {
  constexpr std::size_t kHead = sizeof completed_ + 1;
  std::vector<std::byte> mine(kHead);
  std::memcpy(mine.data(), &completed_, sizeof completed_);
  mine.back() = std::byte{holds};
  mine.insert(mine.end(), last_.begin(), last_.end());
  for (const std::vector<std::byte>& told : group.all_gather(mine, deadline)) {
    TROUPE_CHECK(told.size() >= kHead);
    std::uint64_t completed = 0;
    std::memcpy(&completed, told.data(), sizeof completed);
    const bool is_held = told[kHead - 1] != std::byte{0};
    if (!is_held || completed <= completed_) continue;
    TROUPE_CHECK(!holds || completed == completed_ + 1);
    completed_ = completed;
    last_.assign(told.begin() + kHead, told.end());
  }
}

ElasticGroup::ElasticGroup(Cluster cluster, const GroupOptions& options,
                           std::unique_ptr<Rounds> rounds, Events events)
    : options_(options),
      first_(std::move(cluster)),
      listener_(rounds ? first_.listener.take() : -1),
      events_(std::move(events)),
      cluster_(first_.joins ? alone(first_) : first_),
      round_(first_.joins ? 0 : 1),
      joins_(first_.joins),
      rounds_(std::move(rounds)) {
  if (rounds_ && !joins_) offer(cluster_, listener_);
  group_ = std::make_unique<WorkerGroup>(cluster_, options_);
  if (!rounds_) return;
  rounds_->watch([this](const RoundLoss& loss) {
    const std::lock_guard<std::mutex> lock(replacing_);
    loss_ = loss;
    if (group_ && loss.round == round_) group_->cancel(loss.cause, rank_of(loss.lost, cluster_));
  });
}

ElasticGroup::~ElasticGroup() { rounds_.reset(); }

void ElasticGroup::join(const JoinTerms& terms) {
  terms_ = terms;
  group_->join(terms);
}

void ElasticGroup::abort(const std::string& reason, int exit_code) noexcept {
  if (group_) group_->abort(reason, exit_code);
}

void ElasticGroup::close() try {
  if (group_) group_->close();
} catch (const NetError& error) {
  if (!heals_ || !is_loss(error)) throw;
  log_info("a worker was lost when all was done: ", error.cause());
}

void ElasticGroup::start() {
  if (!rounds_) return;
  ++trainings_.begun;
  trainings_.chief_of_last.clear();
  if (!std::exchange(heals_, true)) rounds_->started();
}

void ElasticGroup::conclude(Span<std::byte> outcome, const std::function<void()>& collective) {
  taken_over_ = false;
  const std::uint64_t mine = outcomes_.completed() + 1;
  try {
    return collective();
  } catch (const NetError& error) {
    heal(error);
  }
  if (outcomes_.completed() < mine) throw RepeatTransaction();
  TROUPE_CHECK_EQ(outcomes_.last().size(), outcome.size());
  std::copy(outcomes_.last().begin(), outcomes_.last().end(), outcome.begin());
  taken_over_ = true;
}

void ElasticGroup::commit(Span<const std::byte> outcome) {
  if (!heals_ || std::exchange(taken_over_, false)) return;
  outcomes_.add(outcome);
  completed_in_ = round_;
}

std::vector<std::byte> ElasticGroup::agree(const std::function<std::vector<std::byte>()>& attempt) {
  if (!heals_) return attempt();
  const std::uint64_t mine = outcomes_.completed() + 1;
  while (outcomes_.completed() < mine) {
    try {
      commit(attempt());
    } catch (const NetError& error) {
      heal(error);
    }
  }
  return outcomes_.last();
}

void ElasticGroup::heal(const NetError& error) {
  // Without a group it is the end of rounds, which next() threw.
  if (!heals_ || !group_ || !is_loss(error)) throw;  // NOLINT: `error` is what is being handled
  Readiness mine;
  mine.cause = error.cause();
  const int lost = group_->culprit();
  if (lost >= 0 && lost != cluster_.rank) mine.lost = cluster_.member(lost).task;
  if (events_.describe) events_.describe(mine, lost);
  begin_round(mine);
}

void ElasticGroup::admit(const std::function<void()>& share) {
  const std::uint64_t mine = outcomes_.completed() + 1;
  const Deadline since = Deadline::in(options_.collective_timeout);
  // Who took the outcome that led here over is in a round in which others have tried this already.
  if (!has_joiners_ && completed_in_ == round_) {
    Readiness leaving;
    leaving.admits = true;
    if (events_.describe) events_.describe(leaving, -1);
    begin_round(leaving);
  }
  if (has_joiners_ && outcomes_.completed() < mine) share_state(share);
  has_joiners_ = false;
  if (!changes_.empty()) changes_.back().seconds = since.elapsed_seconds();
}

void ElasticGroup::leave() {
  Readiness mine;
  mine.round = round_;
  mine.holds = mine.leaves = true;
  if (events_.describe) events_.describe(mine, -1);
  {
    const std::lock_guard<std::mutex> lock(replacing_);
    group_.reset();
  }
  rounds_->leave(mine);
}

void ElasticGroup::enter(const std::function<void()>& share) {
  TROUPE_CHECK(joins_ && rounds_ != nullptr);
  while (joins_) {
    begin_round({});
    try {
      share();
      joins_ = false;
    } catch (const NetError& error) {
      if (!is_loss(error)) throw;
      log_info("the group was lost before this worker was admitted (", error.cause(),
               "); it waits again");
    }
  }
  heals_ = true;
  share_state([] {});
  has_joiners_ = false;
}

/// The last collective tells all that those who came hold the state. What a loss leaves undone is
/// wished for again at the next edge.
void ElasticGroup::share_state(const std::function<void()>& share) {
  try {
    share();
    conclude({}, [this] { group_->barrier(Deadline::in(options_.collective_timeout)); });
    commit({});
  } catch (const RepeatTransaction&) {
    return;
  } catch (const NetError& error) {
    heal(error);
  }
}

/// Until one round has begun.
void ElasticGroup::begin_round(Readiness mine) {
  // Survivors may be a transaction apart: what they came from has another label, or none.
  const CollectiveLabel none(std::uint32_t{0});
  const Cluster former = cluster_;
  const std::string cause = mine.cause;
  const Deadline since = Deadline::in(options_.collective_timeout);
  mine.holds = heals_;
  for (;;) {
    mine.round = round_;
    mine.leads = !events_.leads || events_.leads();
    {
      const std::lock_guard<std::mutex> lock(replacing_);
      group_.reset();
    }
    const std::optional<Round> round = rounds_->next(mine);
    if (!round) throw NothingLeft("training was over when this worker wanted to go on.", "");
    round_ = round->number;
    bool has_begun = true;
    try {
      enter_round(*round);
    } catch (const NetError& error) {
      if (!is_loss(error)) throw;
      mine.cause = error.cause();
      has_begun = false;
    }
    if (has_begun) {
      changes_.push_back(
          {only_in(former, cluster_), only_in(cluster_, former), cause, since.elapsed_seconds()});
      const std::string& chief = trainings_.chief_of_last;
      if (chief.empty() || cluster_.member(0).task == chief) return;
      heals_ = false;  // this loss neither, where a transaction around this one would
      throw PeerLost(text(chief, ", the chief, was lost after the training: ", cause), kRunAgain);
    }
    const int lost = group_ ? group_->culprit() : -1;
    mine.lost = lost >= 0 && lost != cluster_.rank ? cluster_.member(lost).task : "";
    mine.work.clear();  // of the round before; in this one nobody has begun anything
    mine.admits = false;
  }
}

void ElasticGroup::enter_round(const Round& round) {
  cluster_ = cluster_of(round, first_);
  offer(cluster_, listener_);
  {
    const std::lock_guard<std::mutex> lock(replacing_);
    if (loss_.round == round.number) throw PeerLost(loss_.cause, kRunAgain);
    group_ = std::make_unique<WorkerGroup>(cluster_, options_);
  }
  group_->join(terms_);
  has_joiners_ = !std::all_of(round.members.begin(), round.members.end(),
                              [](const Round::Member& member) { return member.holds; });
  outcomes_.exchange(*group_, heals_, Deadline::in(options_.collective_timeout));
  if (events_.on_round) events_.on_round();
}

}  // namespace troupe
