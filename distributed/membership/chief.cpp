#include "distributed/membership/chief.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "net/address.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

// A broken link is seen by a neighbour and by us at about the same time; the worker's own word or
// its own closed connection says more than the neighbour's, so it gets this long to arrive.
constexpr std::chrono::milliseconds kSuspicionGrace{200};
constexpr std::chrono::milliseconds kGoodbyeLinger{1'000};
// An abort frame normally leaves at once; a worker that does not read must not hold up the others.
constexpr std::chrono::milliseconds kAbortFlush{200};
constexpr std::chrono::milliseconds kFlushPoll{1};
constexpr std::size_t kMaxNames = 16;  // in one sentence

}  // namespace

std::chrono::milliseconds tick_of(const GroupOptions& options) {
  return std::max(std::min(options.heartbeat_interval, options.heartbeat_timeout / 4),
                  std::chrono::milliseconds(1));
}

std::string describe_member(const Member& member) {
  if (!member.address) return member.task;
  return text(member.task, " at ", to_text(member.address->host, member.address->port));
}

std::string join_names(const std::vector<std::string>& names) {
  std::string joined;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    joined += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNames) joined += text(" and ", names.size() - kMaxNames, " more");
  return joined;
}

Chief::Chief(GroupState& state, boost::asio::io_context& context, Acceptor& acceptor,
             const JoinTerms& terms)
    : state_(state),
      context_(context),
      acceptor_(acceptor),
      terms_(terms),
      fingerprint_(cluster_fingerprint(state.cluster)),
      signature_hash_(signature_hash(terms.model_signature)),
      links_(
          state, context,
          [this] {
            peer(0).ready = true;
            start_if_ready();
          },
          [this](const Failure& failure) { report(failure); }),
      liveness_(state.cluster.world_size(), state.options.heartbeat_timeout,
                std::chrono::steady_clock::now()),
      tick_(context),
      start_limit_(context),
      announce_(context),
      progress_(context),
      grace_(context),
      began_(std::chrono::steady_clock::now()),
      peers_(static_cast<std::size_t>(state.cluster.world_size())) {}

void Chief::join() {
  began_ = std::chrono::steady_clock::now();
  acceptor_.start([this](FirstFrame first) { take(std::move(first)); });
  links_.listen(acceptor_.endpoint());
  start_limit_.expires_after(state_.options.start_timeout);
  start_limit_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_start_timeout();
  });
  announce_missing();
  on_tick();
}

void Chief::welcome_all() {
  stage_ = Stage::linking;
  Welcome welcome;
  welcome.session = make_session();
  for (int rank = 0; rank < state_.cluster.world_size(); ++rank) {
    welcome.endpoints.push_back(peer(rank).hello.listens);
  }
  welcome.endpoints[0] = {acceptor_.endpoint().address().to_string(), acceptor_.endpoint().port()};
  send_all(FrameType::welcome, to_json(welcome));
  links_.begin(welcome);
}

void Chief::start_if_ready() {
  const bool ready =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.ready; });
  if (!ready || stage_ != Stage::linking || failing()) return;
  stage_ = Stage::running;
  start_limit_.cancel();
  progress_.cancel();
  send_all(FrameType::start, "");
  state_.advance(GroupPhase::started);
}

void Chief::on_frame(int rank, const FrameHeader& header, const std::vector<std::byte>& payload) {
  Peer& from = peer(rank);
  liveness_.heard(rank, std::chrono::steady_clock::now());
  const Span<const std::byte> body(payload);
  const auto malformed = [&] {
    fail(peer_lost(state_.cluster, rank, "it sent a frame that the protocol does not have"));
  };
  switch (header.type) {
    case FrameType::heartbeat:
      from.entered = header.sequence;
      return;
    case FrameType::signature_difference: {
      const auto difference = difference_from(body);
      if (!difference || !from.awaits_difference) return malformed();
      from.awaits_difference = false;
      note_difference(rank, "the model at " + difference->name, *difference);
      return proceed_if_complete();
    }
    case FrameType::ready:
      from.ready = true;
      return start_if_ready();
    case FrameType::report: {
      auto failure = failure_from(body);
      if (!failure || failure->culprit >= state_.cluster.world_size()) return malformed();
      from.entered = std::max(from.entered, header.sequence);
      return fail(blame_the_late(*failure, header.sequence));
    }
    case FrameType::suspect: {
      const auto suspicion = suspicion_from(body);
      if (!suspicion || suspicion->peer >= state_.cluster.world_size()) return malformed();
      return hold_suspicion(rank, *suspicion);
    }
    case FrameType::goodbye:
      from.said_goodbye = true;
      return finish_goodbye();
    default:
      return malformed();
  }
}

void Chief::on_closed(int rank, const std::string& reason) {
  Peer& lost = peer(rank);
  lost.connection = nullptr;
  lost.awaits_difference = false;
  if (failing()) return;
  if (lost.said_goodbye) {
    lost.gone = true;
    return finish_goodbye();
  }
  if (stage_ == Stage::gathering) {
    log_warning(task(rank), " left before the group was complete (", reason,
                "); waiting for it again.");
    return announce_soon();
  }
  fail(peer_lost(state_.cluster, rank, reason + " without a goodbye"));
}

void Chief::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  Liveness::Duration next = tick_of(state_.options);
  for (int rank = 1; rank < state_.cluster.world_size(); ++rank) {
    const auto connection = peer(rank).connection;
    if (!connection) continue;
    if (liveness_.lost(rank, now) && !peer(rank).said_goodbye) {
      const double silent = std::chrono::duration<double>(liveness_.silence(rank, now)).count();
      const double limit = std::chrono::duration<double>(state_.options.heartbeat_timeout).count();
      const std::string how = text("no heartbeat for ", silent, " s (limit ", limit, " s)");
      if (stage_ != Stage::gathering) {
        fail(peer_lost(state_.cluster, rank, how));
      } else {
        connection->close();
        on_closed(rank, how);
      }
    } else if (!connection->has_unsent()) {
      FrameHeader header;
      header.sequence = state_.entered.load(std::memory_order_relaxed);
      header.generation = state_.cluster.generation;
      connection->send(header, "");
    }
    if (!peer(rank).said_goodbye) next = liveness_.next_look(rank, now, next);
  }
  tick_.expires_after(next);
  tick_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_tick();
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
  suspicion_ = peer_lost(state_.cluster, suspicion.peer,
                         text(task(reporter), " lost its link to it: ", suspicion.what));
  grace_.expires_after(kSuspicionGrace);
  grace_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && suspicion_) fail(*suspicion_);
  });
}

void Chief::goodbye() {
  peer(0).said_goodbye = true;
  finish_goodbye();
}

// When all have passed the closing barrier, everybody is let go; then the workers hang up first, so
// that nothing of ours is still on the way when this process ends.
void Chief::finish_goodbye() {
  const bool all_said =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.said_goodbye; });
  if (!all_said) return;
  if (!peer(0).gone) {
    peer(0).gone = true;
    send_all(FrameType::goodbye, "");
    grace_.expires_after(kGoodbyeLinger);
    grace_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) state_.advance(GroupPhase::closed);
    });
  }
  const bool all_gone =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.gone; });
  if (all_gone) state_.advance(GroupPhase::closed);
}

void Chief::fail(const Failure& failure) {
  if (failing()) return;
  failing_ = failure;
  send_all(FrameType::abort, to_json(failure));
  flush_limit_ = std::chrono::steady_clock::now() + kAbortFlush;
  finish_failing();
}

// First the frames leave, then the flag is set: the thread that the flag wakes may end this
// process.
void Chief::finish_failing() {
  const bool unsent = std::any_of(peers_.begin(), peers_.end(), [](const Peer& p) {
    return p.connection && p.connection->has_unsent();
  });
  if (!unsent || std::chrono::steady_clock::now() >= flush_limit_) {
    state_.fail(*failing_);
    return;
  }
  grace_.expires_after(kFlushPoll);
  grace_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) finish_failing();
  });
}

bool Chief::failing() const { return failing_.has_value() || state_.failed(); }

// Who waits longest complains first, but is not at fault: that is who has not come to the
// collective at all.
Failure Chief::blame_the_late(Failure failure, std::uint64_t sequence) const {
  if (failure.kind != FailureKind::timeout) return failure;
  std::vector<std::string> late;
  for (int rank = 0; rank < state_.cluster.world_size(); ++rank) {
    const std::uint64_t entered = rank == 0 ? state_.entered.load(std::memory_order_relaxed)
                                            : peers_[static_cast<std::size_t>(rank)].entered;
    if (entered >= sequence) continue;
    if (late.empty()) failure.culprit = rank;
    late.push_back(text(task(rank), " (at #", entered, ")"));
  }
  if (!late.empty()) {
    failure.cause += text(" Not yet in collective #", sequence, ": ", join_names(late), ".");
  }
  return failure;
}

void Chief::send(int rank, FrameType type, const std::string& payload) {
  const auto connection = peer(rank).connection;
  if (!connection) return;
  FrameHeader header;
  header.type = type;
  header.generation = state_.cluster.generation;
  connection->send(header, payload);
}

void Chief::send_all(FrameType type, const std::string& payload) {
  for (int rank = 1; rank < state_.cluster.world_size(); ++rank) send(rank, type, payload);
}

const std::string& Chief::task(int rank) const {
  return state_.cluster.members[static_cast<std::size_t>(rank)].task;
}

}  // namespace troupe
