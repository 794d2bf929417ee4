#include "troupe/launcher/launch_group.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"
#include "troupe/launcher/nodes/launch_rendezvous.h"
#include "troupe/launcher/nodes/launch_round_relay.h"
#include "troupe/launcher/run/launch_report.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEchoLimit{1'000};     // for the others to notice that a process is gone
constexpr milliseconds kLeastClosing{1'000};  // for servers to end after the workers
constexpr milliseconds kDrainLimit{2'000};    // for output of workers that have ended
constexpr milliseconds kKillLimit{10'000};    // for SIGKILL to take effect

/// Its first round is this start of the group.
std::unique_ptr<Rendezvous> make_rendezvous(const LaunchOptions& options, const GroupStart& start) {
  RendezvousTerms terms;
  terms.min_workers = options.min_workers;
  terms.regroup_limit = options.regroup_limit;
  Round first{1, start.plan.generation, 0, {}};
  for (int i = 0; i < start.plan.world_size; ++i)
    first.members.push_back({task_name(LaunchRole::worker, i), {}, false});
  return std::make_unique<Rendezvous>(
      terms, std::move(first), *start.elastic.losses,
      [next = start.elastic.next_generation](std::uint64_t) { return next(); });
}

}  // namespace

LaunchGroup::LaunchGroup(boost::asio::io_context& io, const LaunchOptions& options,
                         LaunchGuard& guard, LaunchConsole& console, Events events)
    : io_(io),
      options_(options),
      console_(console),
      events_(std::move(events)),
      policy_({options.workers, options.servers, options.restarts}),
      processes_(io, options, guard, console, [this] { finish_if_all_ended(); }),
      losses_(io, console, policy_, outcome_,
              {[this] { return phase_ == Phase::running; },
               [this](int index) { processes_.expect_again(index); },
               [this](int index) {
                 if (!rounds_ || !rounds_->start_elsewhere(index)) processes_.start_again(index);
               }}) {}

void LaunchGroup::start(const std::string& program, GroupStart start) {
  if (start.elastic.restarts != nullptr) {
    policy_ = LaunchPolicy({options_.workers, options_.servers, 0, start.elastic.restarts});
    make_rounds(start);
  }
  processes_.start_all(program, std::move(start), rounds_.get());
}

void LaunchGroup::make_rounds(const GroupStart& start) {
  const auto kill = [this](int index) {
    if (LaunchedWorker* process = processes_.last_of(index)) process->signal(SIGKILL);
  };
  if (start.elastic.link != nullptr) {
    const auto has = [first = start.plan.first_rank, count = options_.workers](int index) {
      return index >= first && index < first + count;
    };
    rounds_ = std::make_unique<RoundRelay>(
        io_, *start.elastic.link, console_, has,
        RoundRelay::Events{kill, [this](int index) { losses_.start_ordered(index); }});
    return;
  }
  LaunchRendezvous::Events events;
  events.on_expelled = kill;
  events.on_started = [this] { policy_.on_state(); };
  events.on_verdict = [this](const RoundVerdict& verdict, int last) { on_verdict(verdict, last); };
  events.on_remote_end = [this](int index, const EndedProcess& process) {
    on_remote_end(index, process);
  };
  events.on_remote_change = [this] {
    settle();
    finish_if_all_ended();
  };
  events.on_remote_back = [this](int index) { losses_.start_returned(index); };
  rounds_ = std::make_unique<LaunchRendezvous>(io_, console_, make_rendezvous(options_, start),
                                               start.plan.world_size, std::move(events),
                                               start.elastic.remote);
}

/// With the state gone the last worker's end is that of the group. Otherwise those that waited for
/// a round have been told the reason.
void LaunchGroup::on_verdict(const RoundVerdict& verdict, int last) {
  if (phase_ >= Phase::stopping || outcome_.has_culprit()) return;
  const LaunchedWorker* const culprit = processes_.last_of(last);
  if (verdict.kind != RoundVerdict::Kind::state_lost || culprit == nullptr) {
    outcome_.verdict = {verdict.exit_code, verdict.cause};
    return await_echo();
  }
  console_.say(verdict.cause + ".");
  outcome_.culprit = culprit;
  fail();
}

void LaunchGroup::on_signal(int number) {
  if (phase_ >= Phase::draining) {  // the reader of our output is gone
    close_streams();
    return events_.on_hopeless();
  }
  // Of node 0's order this may be the reason: all launchers got the signal, and it was faster.
  const bool is_first = phase_ < Phase::stopping || std::exchange(is_ordered_, false);
  if (!is_first) {
    if (number == SIGHUP) return;
    told_twice_ = true;
    return kill_all();
  }
  outcome_.interrupted_by = number;
  console_.say(text(number == SIGINT ? "interrupted" : text("got signal ", number),
                    "; the workers have ", seconds_text(options_.grace), " to stop",
                    number == SIGINT ? " (once more: at once)." : "."));
  if (phase_ >= Phase::stopping) return;
  begin_stop(number, options_.grace);
  events_.on_failing();
  finish_if_all_ended();
}

void LaunchGroup::stop(int number, milliseconds limit) {
  if (phase_ >= Phase::stopping) return;
  outcome_.is_ordered = true;
  is_ordered_ = true;
  begin_stop(number, std::min(limit, options_.grace));
  finish_if_all_ended();  // an elastic group may have no worker here
}

void LaunchGroup::on_children() {
  std::vector<LaunchedWorker*> ended = processes_.reap();
  const auto order = [this](const LaunchedWorker* process) {
    return policy_.order_of_cause(process->role(), process->index(), *process->end());
  };
  std::stable_sort(ended.begin(), ended.end(),
                   [&](const auto* a, const auto* b) { return order(a) < order(b); });
  for (LaunchedWorker* process : ended) on_end(*process);
  settle();
  if (ended.empty()) return;
  if (phase_ == Phase::suspecting && !outcome_.has_culprit() && processes_.trainers_running() == 1)
    suspect_last();
  limit_closing();
  finish_if_all_ended();
}

/// Of those that have ended each has been judged. With the last of them gone there is nobody left
/// to wait for but an evaluator without a future.
void LaunchGroup::settle() {
  if (rounds_) rounds_->carry_out();
  if (phase_ == Phase::suspecting && processes_.trainers_running() == 0) fail();
}

void LaunchGroup::on_end(LaunchedWorker& process) {
  if (rounds_ && process.role() == LaunchRole::worker &&
      !rounds_->ended(process.index(), process.ended()))
    return;
  if (phase_ >= Phase::stopping || outcome_.has_culprit()) return;
  if (outcome_.servers_overdue && process.role() == LaunchRole::server) return;
  const bool has_left =
      rounds_ && process.role() == LaunchRole::worker && rounds_->has_left(process.index());
  const Consequence consequence =
      has_left ? Consequence::lost
               : policy_.on_end(process.role(), process.index(), *process.end());
  switch (consequence) {
    case Consequence::none:
      return;
    case Consequence::bystander:
      return on_evaluator_end(process);
    case Consequence::lost:
    case Consequence::start_again:
      if (phase_ != Phase::running) return;
      if (consequence == Consequence::lost) processes_.give_up(process.index());
      return losses_.add(process.ended(), &process, process.index(), consequence,
                         rounds_ != nullptr);
    case Consequence::suspect:
      return suspect(process);
    case Consequence::await_echo:
      outcome_.culprit = &process;
      return await_echo();
    case Consequence::stop:
      outcome_.culprit = &process;
      return fail();
  }
}

/// Training is worth more than its evaluation: the workers continue.
void LaunchGroup::on_evaluator_end(LaunchedWorker& evaluator) {
  outcome_.failed_evaluator = &evaluator;
  if (processes_.trainers_running() > 0)
    console_.say(text(evaluator.name(), " ", describe(*evaluator.end()),
                      "; training continues without evaluation."));
}

/// As that of a worker here, whose end the group may go on without.
void LaunchGroup::on_remote_end(int index, const EndedProcess& process) {
  const bool is_news = rounds_->ended(index, process);
  if (!is_news || phase_ >= Phase::stopping || outcome_.has_culprit()) return;
  const Consequence consequence = rounds_->has_left(index)
                                      ? Consequence::lost
                                      : policy_.on_end(LaunchRole::worker, index, process.end);
  if (consequence == Consequence::lost || consequence == Consequence::start_again) {
    if (phase_ == Phase::running) losses_.add(process, nullptr, index, consequence, true);
  } else if (consequence != Consequence::none && is_loss(process.end)) {
    outcome_.verdict = {process.end.code, end_text(process)};
    fail();
  }
}

/// This worker is a victim by its own account. Whoever it lost ends about now, or hangs.
void LaunchGroup::suspect(LaunchedWorker& victim) {
  if (outcome_.first_victim == nullptr) outcome_.first_victim = &victim;
  if (phase_ != Phase::running) return;
  phase_ = Phase::suspecting;
  run_after(suspicion_timer_, options_.grace, [this] {
    if (phase_ == Phase::suspecting) stop_unresponsive();
  });
}

/// All others have given this one up, so it has nothing left to do: no training to end and nothing
/// to save.
void LaunchGroup::suspect_last() {
  run_after(suspicion_timer_, std::min(options_.grace, kEchoLimit), [this] {
    if (phase_ != Phase::suspecting) return;
    for (LaunchedWorker* last : stop_unresponsive()) last->signal(SIGKILL);
  });
}

/// Returns those that still ran.
std::vector<LaunchedWorker*> LaunchGroup::stop_unresponsive() {
  std::vector<LaunchedWorker*> running;
  std::vector<std::string> names;
  for (const auto& process : processes_.all()) {
    if (!process->running() || process->role() == LaunchRole::evaluator) continue;
    running.push_back(process.get());
    names.push_back(process->name());
  }
  outcome_.unresponsive = join(names);
  fail();
  return running;
}

/// The cause is known. The others notice its closed connections and say whom they lost, unless a
/// signal is faster.
void LaunchGroup::await_echo() {
  phase_ = Phase::suspecting;
  run_after(suspicion_timer_, std::min(options_.grace, kEchoLimit), [this] {
    if (phase_ == Phase::suspecting) fail();
  });
}

/// After the chief's end, servers without workers and workers without servers have the grace
/// period to end, too.
void LaunchGroup::limit_closing() {
  const auto now = [this] {
    return policy_.overdue(processes_.running(LaunchRole::worker),
                           processes_.running(LaunchRole::server));
  };
  if (closing_limited_ || phase_ != Phase::running || !now()) return;
  closing_limited_ = true;
  run_after(closing_timer_, std::max(options_.grace, kLeastClosing), [this, now] {
    const auto overdue = now();
    if (phase_ != Phase::running || !overdue) return;
    if (*overdue == LaunchRole::server) outcome_.servers_overdue = true;
    end_overdue(*overdue);
  });
}

void LaunchGroup::end_overdue(LaunchRole role) {
  for (const auto& process : processes_.all()) {
    if (!process->running() || process->role() != role) continue;
    console_.say(text(process->name(), " still runs, though training is complete; it is stopped."));
    process->signal(SIGTERM);
    process->signal(SIGCONT);
  }
  run_after(overdue_timer_, options_.grace, [this, role] {
    for (const auto& process : processes_.all())
      if (process->role() == role) process->signal(SIGKILL);
  });
}

/// For a reason of its own.
void LaunchGroup::fail() {
  begin_stop(SIGTERM, options_.grace);
  events_.on_failing();
  finish_if_all_ended();
}

void LaunchGroup::begin_stop(int signal_number, milliseconds limit) {
  phase_ = Phase::stopping;
  if (rounds_) rounds_->stop();  // those that are left go on until they have saved
  processes_.signal(signal_number);
  processes_.signal(SIGCONT);  // one that was stopped can act on it, too
  run_after(grace_timer_, limit, [this] {
    if (phase_ != Phase::stopping) return;
    for (const auto& process : processes_.all())
      if (process->running())
        console_.say(text(process->name(), " did not stop in time and is killed."));
    kill_all();
  });
}

void LaunchGroup::kill_all() {
  processes_.signal(SIGKILL);
  if (phase_ == Phase::killing) return;
  phase_ = Phase::killing;
  run_after(kill_timer_, kKillLimit, [this] {
    // The kernel holds one of them; it dies when it is let go.
    if (phase_ == Phase::killing) events_.on_hopeless();
  });
}

void LaunchGroup::finish_if_all_ended() {
  if (phase_ == Phase::reported || processes_.trainers_running() > 0) return;
  if (phase_ < Phase::stopping && rounds_ && rounds_->goes_on(policy_.training_is_done())) return;
  const bool evaluates = processes_.running(LaunchRole::evaluator) > 0;
  // Of an elastic group whose other workers have ended well.
  const bool ended_well = phase_ == Phase::running && !outcome_.has_culprit() &&
                          rounds_ != nullptr && policy_.training_is_done();
  if (const EndedProcess* chief = ended_well ? rounds_->lost_chief() : nullptr) {
    outcome_.verdict = {chief->end.code,
                        text(end_text(*chief), ", and what follows the training is not done")};
    // It waits for what the chief can no longer do.
    if (evaluates) begin_stop(SIGTERM, options_.grace);
  }
  if (evaluates) return;
  if (phase_ != Phase::draining) {
    phase_ = Phase::draining;
    processes_.sweep_strays();
    limit_draining();
  }
  if (processes_.streams_open()) return;
  phase_ = Phase::reported;
  drain_timer_.cancel();
  for (const std::string& sentence : outcome_.report(processes_.all())) console_.say(sentence);
  events_.on_end();
}

/// A stream that stays open after the sweep is held by a process that is not ours. A reader that is
/// slow to take what is there has all the time it wants, unless we were told twice to end.
void LaunchGroup::limit_draining() {
  run_after(drain_timer_, kDrainLimit, [this] {
    if (!console_.is_empty() && !told_twice_) return limit_draining();
    close_streams();
    if (told_twice_) events_.on_hopeless();
  });
}

/// Ends the wait for output, and reports if that was all that was left to wait for.
void LaunchGroup::close_streams() {
  processes_.close_streams();
  finish_if_all_ended();
}

}  // namespace troupe
