#include "servers/wire/server_process.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/membership/chief.h"
#include "servers/wire/server_terms.h"

namespace troupe {
namespace {

using ErrorCode = boost::system::error_code;

// As in the chief: an abort frame normally leaves at once, and a worker that does not read must not
// hold up the others.
constexpr std::chrono::milliseconds kAbortFlush{200};
constexpr std::chrono::milliseconds kFlushPoll{1};

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ServerProcess::ServerProcess(Cluster cluster, GroupOptions options, Staleness pace,
                             ServedModel model, ParameterStore& store)
    : cluster_(std::move(cluster)),
      options_(options),
      pace_(pace),
      model_(std::move(model)),
      store_(store),
      signals_(context_),
      tick_(context_),
      start_limit_(context_),
      grace_(context_),
      stop_limit_(context_),
      liveness_(cluster_.world_size(), options.heartbeat_timeout, std::chrono::steady_clock::now()),
      clocks_(cluster_.world_size()),
      rounds_(clocks_),
      keeper_(pace, cluster_.server == 0 ? ServerRole::clock : ServerRole::follower, clocks_,
              rounds_),
      changes_(model_, cluster_.server),
      seats_(static_cast<std::size_t>(cluster_.world_size())),
      pulse_(tick_of(options_), [this] {
        FrameHeader header;
        header.type = FrameType::heartbeat;
        header.generation = cluster_.generation;
        for (const Seat& seat : seats_) {
          if (seat.connection && !seat.left) seat.connection->send_beside(header);
        }
      }) {
  check_server_addresses(cluster_, options_);
  const Endpoint& here = *cluster_.servers.at(static_cast<std::size_t>(cluster_.server)).address;
  const int inherited = cluster_.listener.take();
  acceptor_ = inherited >= 0 ? std::make_unique<Acceptor>(context_, inherited)
                             : std::make_unique<Acceptor>(context_, here.host, here.port);
}

void ServerProcess::run(const JoinTerms& terms) {
  terms_ = server_terms(terms, pace_, model_);
  fingerprint_ = cluster_fingerprint(cluster_);
  signature_hash_ = signature_hash(terms_.model_signature);
  ErrorCode ignored;
  signals_.add(SIGTERM, ignored);
  signals_.async_wait([this](const ErrorCode& cancelled, int) {
    if (!cancelled) on_sigterm();
  });
  acceptor_->start([this](FirstFrame first) { take(std::move(first)); });
  limit_start();
  on_tick();
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& error) {
      own_error_ = std::current_exception();
      fail_by(error);
    }
  }
  signals_.clear(ignored);
  if (own_error_) std::rethrow_exception(own_error_);
  if (sigterm_) {
    throw Stopped(text(cluster_.task(), " was stopped by SIGTERM."),
                  "start the job again to go on.");
  }
  if (failing_) raise(*failing_, cluster_, "");
}

void ServerProcess::limit_start() {
  start_limit_.expires_after(options_.start_timeout);
  start_limit_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_start_timeout();
  });
}

// The chief decides when training begins; once it has, all workers must come.
void ServerProcess::on_start_timeout() {
  if (keeper_.launched() || failing()) return;
  const bool chief_is_here = seat(0).connection != nullptr;
  if (chief_is_here && !pending_launch_) return limit_start();  // it takes its time
  std::string missing;
  for (const int rank : absent()) missing += (missing.empty() ? "" : ", ") + task(rank);
  if (!chief_is_here) missing = task(0);
  fail({FailureKind::rendezvous, 0,
        text("the group did not come together at ", cluster_.task(), " in ",
             seconds_of(options_.start_timeout), " s (limit --start-timeout): ", missing,
             " did not join."),
        "start every task, and check that each can reach all parameter servers.", kExitPeerLost});
}

void ServerProcess::on_closed(int rank, const std::string& reason) {
  if (failing()) return;
  if (seat(rank).left) {
    seat(rank).connection = nullptr;
    return end_if_left();
  }
  lose(rank, reason + " without a goodbye");
}

// The connection of a worker that is given up stays open until it hangs up: if it was only stopped,
// it reads there, when it runs again, what has happened.
void ServerProcess::lose(int rank, const std::string& how) {
  const auto connection = std::exchange(seat(rank).connection, nullptr);
  const bool took_part = clocks_.live(rank);
  const Failure failure = peer_lost(cluster_, rank, how);
  if (rank == 0 && took_part) return fail(failure);
  const std::int64_t step = keeper_.launched() ? keeper_.step() : 0;
  keeper_.leave(rank);
  seat(rank) = Seat{};
  seat(rank).was_lost = took_part && keeper_.launched();
  if (seat(rank).was_lost) {
    log_warning(task(rank), " is lost at step ", step, "; training goes on without it: ", how, ".");
    keeper_.statistics().lost.push_back(text(task(rank), " at step ", step));
  } else {
    log_debug(task(rank), " left before it took part: ", how, ".");
  }
  if (connection && connection->open()) {
    FrameHeader header;
    header.type = FrameType::abort;
    header.generation = cluster_.generation;
    connection->send(header, to_json(failure));
  }
  examine();
}

void ServerProcess::on_goodbye(int rank) {
  send(rank, FrameType::goodbye, 0, "");
  seat(rank).left = true;
  seat(rank).push.reset();
  keeper_.leave(rank);
  if (rank == 0) {
    keeper_.finish(text(task(0), " has left"));
    stop_at(options_.close_timeout);  // for the others
  }
  examine();
}

void ServerProcess::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  Liveness::Duration next = tick_of(options_);
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    const auto connection = seat(rank).connection;
    if (!connection || seat(rank).left) continue;
    if (std::exchange(seat(rank).received_bytes, connection->received_bytes()) !=
        connection->received_bytes()) {
      liveness_.heard(rank, now);
    }
    if (liveness_.lost(rank, now)) {
      lose(rank, text("no heartbeat for ", seconds_of(liveness_.silence(rank, now)), " s (limit ",
                      seconds_of(options_.heartbeat_timeout), " s)"));
      continue;
    }
    if (!connection->has_unsent()) {
      const std::string whom = waits_for(rank);
      send(rank, whom.empty() ? FrameType::heartbeat : FrameType::waiting, 0, whom);
    }
    next = liveness_.next_look(rank, now, next);
  }
  tick_.expires_after(next);
  tick_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_tick();
  });
}

void ServerProcess::on_sigterm() {
  sigterm_ = true;
  log_info("SIGTERM: serving on until the chief ends training, at most ",
           seconds_of(options_.close_timeout), " s.");
  if (keeper_.finished()) return;  // that has its own limit
  stop_limit_.expires_after(options_.close_timeout);
  stop_limit_.async_wait([this](const ErrorCode& cancelled) {
    if (cancelled || keeper_.finished()) return;
    fail({FailureKind::peer_failed, number_of(cluster_),
          text(cluster_.task(), " was stopped by SIGTERM."), "start the job again to go on.",
          kExitStopped});
  });
}

void ServerProcess::stop_at(std::chrono::milliseconds limit) {
  stop_limit_.expires_after(limit);
  stop_limit_.async_wait([this](const ErrorCode& cancelled) {
    if (cancelled) return;
    // The chief says goodbye when it has saved and tested, which may take long: as long as it lives
    // it finds its servers.
    const bool chief_is_here = seat(0).connection && !seat(0).left;
    if (std::exchange(statistics_sent_, true)) {
      if (sigterm_ || !chief_is_here) return context_.stop();
      return stop_at(options_.close_timeout);
    }
    for (int rank = 1; rank < cluster_.world_size(); ++rank) {
      if (!seat(rank).connection || seat(rank).left) continue;
      log_warning(task(rank), " has not left within ", seconds_of(options_.close_timeout),
                  " s after the end of training.");
    }
    if (is_clock()) send(0, FrameType::statistics, 0, to_json(keeper_.statistics()));
    stop_at(options_.close_timeout);
  });
}

// First the workers leave, then the chief reads what was counted and leaves, then this server ends.
void ServerProcess::end_if_left() {
  if (!keeper_.finished() || failing()) return;
  const auto here = [](const Seat& s) { return s.connection != nullptr && !s.left; };
  if (std::any_of(seats_.begin() + 1, seats_.end(), here)) return;
  if (!std::exchange(statistics_sent_, true) && is_clock()) {
    send(0, FrameType::statistics, 0, to_json(keeper_.statistics()));
  }
  const auto connected = [](const Seat& s) { return s.connection != nullptr; };
  if (std::none_of(seats_.begin(), seats_.end(), connected)) context_.stop();
}

void ServerProcess::fail_by(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const std::string cause = ours != nullptr ? ours->cause() : text(error.what(), ".");
  fail({FailureKind::peer_failed, number_of(cluster_), text(cluster_.task(), " failed: ", cause),
        ours != nullptr ? ours->fix() : "look at its log, then start the whole group again.",
        ours != nullptr ? ours->exit_code() : kExitFailed});
}

void ServerProcess::fail(const Failure& failure) {
  if (failing()) return;
  failing_ = failure;
  for (int rank = 0; rank < cluster_.world_size(); ++rank) {
    send(rank, FrameType::abort, 0, to_json(failure));
  }
  flush_limit_ = std::chrono::steady_clock::now() + kAbortFlush;
  finish_failing();
}

void ServerProcess::finish_failing() {
  const bool unsent = std::any_of(seats_.begin(), seats_.end(), [](const Seat& s) {
    return s.connection && s.connection->has_unsent();
  });
  if (!unsent || std::chrono::steady_clock::now() >= flush_limit_) return context_.stop();
  grace_.expires_after(kFlushPoll);
  grace_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) finish_failing();
  });
}

void ServerProcess::send(int rank, FrameType type, std::uint64_t sequence,
                         const std::string& payload) {
  const auto connection = seat(rank).connection;
  if (!connection) return;
  FrameHeader header;
  header.type = type;
  header.generation = cluster_.generation;
  header.sequence = sequence;
  connection->send(header, payload);
}

}  // namespace troupe
