#include "troupe/distributed/membership/chief.h"

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

// A broken link is seen by a neighbour and by us at about the same time; the worker's own word or
// its own closed connection says more than the neighbour's, so it gets this long to arrive.
constexpr std::chrono::milliseconds kSuspicionGrace{200};
constexpr std::chrono::milliseconds kGoodbyeLinger{1'000};
constexpr std::chrono::milliseconds kClosingReports{500};
// Who is missing changes with everyone who comes. Told each time, W workers would cost W^2 messages
// of up to W names: on a link of 1.25 MB/s 128 workers took 4 s for that, and 256 lost each other.
// Source: docs/scale.md.
constexpr std::chrono::milliseconds kAnnouncePause{50};

}  // namespace

Chief::Chief(GroupState& state, boost::asio::io_context& context, Acceptor& acceptor,
             const JoinTerms& terms)
    : state_(state),
      acceptor_(acceptor),
      lines_(
          context, state.options, state.cluster, state.cluster.members.size(), *this,
          [this](int rank) {
            lines_.send(rank, FrameType::heartbeat, "",
                        state_.entered.load(std::memory_order_relaxed));
          },
          [this](const Failure& failure) { state_.fail(failure); }),
      door_(context, state.cluster, terms, lines_, *this),
      links_(state, context, *this,
             [this] {
               peer(0).ready = true;
               start_if_ready();
             }),
      start_watch_(
          context, state.options.start_timeout, [this] { return names_of(late()); },
          [this] { on_start_timeout(); }),
      announce_(context),
      suspicion_limit_(context),
      goodbye_limit_(context),
      peers_(state.cluster.members.size()) {}

void Chief::join() {
  acceptor_.start(state_.credentials, [this](Introduction first) {
    if (first.purpose() == Purpose::link) return links_.take(std::move(first));
    if (first.purpose() == Purpose::control) door_.take(std::move(first));  // else it is closed
  });
  links_.listen();
  peer(0).has_agreed = true;
  start_watch_.begin();
  lines_.start();
}

std::optional<Refusal> Chief::objection(const Hello& hello) const {
  if (stage_ == Stage::gathering || failing()) return std::nullopt;
  return Refusal{text("the group has already started without this process as ", hello.task, "."),
                 "stop the whole group, then start it again.", Retry::yes};
}

void Chief::on_seated(const Hello& hello) {
  peer(hello.rank) = Peer{};
  peer(hello.rank).listens = hello.listens;
  announce_soon();
}

void Chief::on_agreed(int rank) {
  peer(rank).has_agreed = true;
  proceed();
}

void Chief::on_difference(int rank, const Failure& failure) {
  door_.note_difference(failure);
  on_agreed(rank);
}

void Chief::proceed() {
  const auto is_here = [](const Peer& p) { return p.has_agreed; };
  const bool complete = std::all_of(peers_.begin(), peers_.end(), is_here);
  if (stage_ != Stage::gathering || !complete || door_.has_doubts() || failing()) return;
  if (door_.difference()) return fail(*door_.difference());
  stage_ = Stage::linking;
  Welcome welcome;
  welcome.session = make_session();
  const auto own = acceptor_.endpoint();
  peer(0).listens = {own.address().to_string(), own.port(), links_.local_digits()};
  for (const Peer& each : peers_) welcome.endpoints.push_back(each.listens);
  lines_.send_all(FrameType::welcome, to_json(welcome));
  links_.begin(welcome);
}

void Chief::start_if_ready() {
  const bool ready =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.ready; });
  if (!ready || stage_ != Stage::linking || failing()) return;
  stage_ = Stage::running;
  start_watch_.end();
  lines_.send_all(FrameType::start);
  state_.advance(GroupPhase::started);
}

void Chief::on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload) {
  const Span<const std::byte> body(payload);
  switch (header.type) {
    case FrameType::heartbeat:
      peer(rank).entered = header.sequence;
      return;
    case FrameType::ready:
      peer(rank).ready = true;
      return start_if_ready();
    case FrameType::report:
      if (on_report(rank, header, body)) return;
      break;
    case FrameType::suspect: {
      const auto suspicion = suspicion_from(body);
      const bool may_be = stage_ != Stage::gathering;  // nobody is linked before
      if (!may_be || !suspicion || suspicion->peer >= state_.cluster.world_size()) break;
      return hold_suspicion(rank, *suspicion);
    }
    case FrameType::goodbye:
      lines_.retire(rank);
      return finish_goodbye();
    default:
      break;
  }
  lose(rank, "it sent a frame that the protocol does not have");
}

bool Chief::on_report(int rank, const FrameHeader& header, Span<const std::byte> body) {
  const auto failure = failure_from(body);
  if (!failure || failure->culprit >= state_.cluster.world_size()) return false;
  Peer& from = peer(rank);
  from.entered = std::max(from.entered, header.sequence.value());
  const bool found_difference = failure->kind == FailureKind::config && !from.has_agreed;
  if (found_difference) {
    on_difference(rank, *failure);
  } else if (stage_ == Stage::gathering) {
    from.gave_up = failure->kind == FailureKind::rendezvous;
    lose(rank, "it reported: " + failure->cause);
  } else if (stage_ == Stage::linking && from.ready && failure->kind == FailureKind::rendezvous) {
    on_start_timeout();  // it was patient for as long, and does not know whom it waited for
  } else {
    fail(blame_the_late(*failure, header.sequence));
  }
  return true;
}

void Chief::on_closed(int rank, const std::string& reason, FrameFault fault) {
  if (failing()) return;
  if (fault == FrameFault::bad_checksum && stage_ != Stage::gathering) {
    return fail(bytes_damaged(state_.cluster, rank, 0, lines_.at(rank)->local_address()));
  }
  if (const auto line = lines_.drop(rank)) line->close();
  if (lines_.is_retired(rank)) return finish_goodbye();
  if (stage_ != Stage::gathering) {
    return fail(peer_lost(state_.cluster, rank, reason + " without a goodbye"));
  }
  peer(rank).has_agreed = false;
  log_warning(state_.cluster.member(rank).task, " left before the group was complete (", reason,
              "); waiting for it again.");
  announce_soon();
}

void Chief::lose(int rank, const std::string& how) {
  if (stage_ != Stage::gathering) return fail(peer_lost(state_.cluster, rank, how));
  lines_.drop(rank)->close();
  on_closed(rank, how, FrameFault::none);
}

void Chief::on_start_timeout() {
  if (stage_ == Stage::running || failing()) return;
  std::vector<int> ranks = late();
  // Who was here and had the patience of its own limit is not whom the group lacks.
  const auto gave_up = [this](int rank) { return peer(rank).gave_up; };
  if (!std::all_of(ranks.begin(), ranks.end(), gave_up)) {
    ranks.erase(std::remove_if(ranks.begin(), ranks.end(), gave_up), ranks.end());
  }
  fail(start_timeout(
      ranks.empty() ? 0 : ranks.front(), "the group did not form", state_.options.start_timeout,
      names_of(ranks) + (stage_ == Stage::gathering ? " did not join" : " did not make all links"),
      "the chief's address"));
}

void Chief::announce_soon() {
  if (std::exchange(is_announcing_, true)) return;
  run_after(announce_, kAnnouncePause, [this] {
    is_announcing_ = false;
    if (stage_ != Stage::gathering || failing()) return;
    const std::string missing = names_of(late());
    if (!missing.empty()) lines_.send_all(FrameType::waiting, cut_to_fit(missing));
  });
}

void Chief::report(const Failure& failure) {
  fail(blame_the_late(failure, state_.entered.load(std::memory_order_relaxed)));
}

void Chief::suspect(int suspected, const std::string& what) {
  hold_suspicion(0, {suspected, what});
}

void Chief::hold_suspicion(int reporter, const Suspicion& suspicion) {
  if (failing() || suspicion_) return;
  // Both ends are alive as far as the chief knows: who is at fault is unknown.
  const std::string ends = text(state_.cluster.member(reporter).task, " and ",
                                state_.cluster.member(suspicion.peer).task);
  suspicion_ = {FailureKind::peer_lost, suspicion.peer,
                text("the link between ", ends, " is lost: ", suspicion.what, "."),
                text("look at the logs of ", ends, ", then start the whole group again."),
                kExitPeerLost};
  run_after(suspicion_limit_, kSuspicionGrace, [this] { fail(*suspicion_); });
}

void Chief::goodbye(const Deadline& limit) {
  lines_.retire(0);
  // Who is in the closing barrier until then says itself whom it waits for.
  run_after(goodbye_limit_, limit.remaining() + kClosingReports, [this, limit] {
    std::vector<int> silent;
    for (int rank = 0; rank < lines_.count(); ++rank) {
      if (!lines_.is_retired(rank)) silent.push_back(rank);
    }
    fail({FailureKind::timeout, silent.empty() ? 0 : silent.front(),
          text("the group did not close within ", limit.limit_seconds(), " s: ", names_of(silent),
               " did not say goodbye."),
          "look at the logs of these workers; all work was done before.", kExitPeerLost});
  });
  finish_goodbye();
}

// When all have passed the closing barrier, everybody is let go; then the workers hang up first, so
// that nothing of ours is still on the way when this process ends.
void Chief::finish_goodbye() {
  for (int rank = 0; rank < lines_.count(); ++rank) {
    if (!lines_.is_retired(rank)) return;
  }
  if (std::exchange(stage_, Stage::closing) != Stage::closing) {
    lines_.send_all(FrameType::goodbye);
    run_after(goodbye_limit_, kGoodbyeLinger, [this] { state_.advance(GroupPhase::closed); });
  }
  if (lines_.empty()) state_.advance(GroupPhase::closed);
}

void Chief::fail(const Failure& failure) {
  if (!failing()) lines_.fail(failure, FrameType::abort);
}

// Who waits longest complains first, but is not at fault: that is who has not come to the
// collective at all; of several, who is farthest behind: the others may be waiting for it.
Failure Chief::blame_the_late(Failure failure, std::uint64_t sequence) const {
  if (failure.kind != FailureKind::timeout) return failure;
  std::vector<std::string> behind;
  std::uint64_t farthest = sequence;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const std::uint64_t entered =
        rank == 0 ? state_.entered.load(std::memory_order_relaxed) : peers_[rank].entered;
    if (entered >= sequence) continue;
    if (entered < farthest) failure.culprit = static_cast<int>(rank);
    farthest = std::min(farthest, entered);
    behind.push_back(text(state_.cluster.members[rank].task, " (at #", entered, ")"));
  }
  if (!behind.empty()) {
    failure.cause += text(" Not yet in collective #", sequence, ": ", join_names(behind), ".");
  }
  return failure;
}

// Whom the group waits for: those that are not here, then those whose links are not made.
std::vector<int> Chief::late() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& each = peers_[rank];
    const bool is_late = stage_ == Stage::gathering ? !each.has_agreed : !each.ready;
    if (is_late) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::string Chief::names_of(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (const int rank : ranks) {
    names.push_back(describe_member(state_.cluster.member(rank)));
  }
  return join_names(names);
}

}  // namespace troupe
