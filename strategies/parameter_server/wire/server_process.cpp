#include "troupe/strategies/parameter_server/wire/server_process.h"

#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/stop_signal.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {

ServerProcess::ServerProcess(Cluster cluster, GroupOptions options, ServerOptions pace,
                             ServedModel model, ParameterStore& store)
    : cluster_(std::move(cluster)),
      options_(options),
      pace_(pace),
      model_(std::move(model)),
      lines_(
          context_, options_, cluster_, cluster_.members.size(), *this,
          [this](int rank) {
            const std::string whom = steps_.waits_for(rank);
            lines_.send(rank, whom.empty() ? FrameType::heartbeat : FrameType::waiting, whom);
          },
          [this](const Failure&) { context_.stop(); }),
      start_watch_(
          context_, options_.start_timeout, [this] { return waited_for(); },
          [this] { on_start_timeout(); }),
      steps_(cluster_, pace_, model_, store, lines_, ControlLines::tick_of(options_)),
      ending_(context_, cluster_, options_.close_timeout, lines_, steps_.keeper()),
      seats_(cluster_.members.size()) {
  check_server_cluster(cluster_, options_);
  const Endpoint& here = *cluster_.servers.at(static_cast<std::size_t>(cluster_.server)).address;
  const int inherited = cluster_.listener.take();
  acceptor_ = inherited >= 0 ? std::make_unique<Acceptor>(context_, inherited)
                             : std::make_unique<Acceptor>(context_, here.host, here.port,
                                                          options_.start_timeout);
  const int losses = cluster_.losses.take();
  if (losses >= 0) losses_.assign(losses);
}

void ServerProcess::run(const JoinTerms& terms) {
  DoorKeeper& keeper = *this;
  door_.emplace(context_, cluster_, server_terms(terms, pace_, model_), lines_, keeper);
  ending_.watch_signals();
  acceptor_->start(credentials_of(cluster_, options_), [this](Introduction first) {
    if (first.purpose() == Purpose::serving) door_->take(std::move(first));  // else it is closed
  });
  start_watch_.begin();
  lines_.start();
  await_losses();
  while (!context_.stopped()) {
    try {
      context_.run();
    } catch (const std::exception& error) {
      own_error_ = std::current_exception();
      fail_by(error);
    }
  }
  const int signal = ending_.stop_signal();
  ending_.forget_signals();
  if (own_error_) std::rethrow_exception(own_error_);
  if (signal != 0) {
    throw Stopped(text(cluster_.task(), " was stopped by ", signal_name(signal), "."),
                  "start the job again to go on.", signal);
  }
  if (lines_.failed()) raise(*lines_.failure(), cluster_, "");
}

std::optional<Refusal> ServerProcess::objection(const Hello&) const {
  if (!steps_.keeper().finished()) return std::nullopt;
  return Refusal{"training has ended.", "start the job again to go on.", Retry::no};
}

void ServerProcess::on_seated(const Hello& hello) {
  seat(hello.rank).awaits_clock = false;
  steps_.forget(hello.rank);
}

void ServerProcess::on_agreed(int rank) {
  lines_.at(rank)->set_limits(bulk_limits(model_, cluster_.server));
  if (cluster_.server != 0) return tell_clock(rank, 0);
  seat(rank).awaits_clock = true;
  examine();
}

// Before training one worker with other terms means that the job was started wrongly; later it is
// that worker's own affair.
void ServerProcess::on_difference(int rank, const Failure& failure) {
  lines_.send(rank, FrameType::abort, to_json(failure));
  if (!steps_.keeper().launched()) door_->note_difference(failure);
}

void ServerProcess::tell_clock(int rank, std::int64_t clock) {
  seat(rank).awaits_clock = false;
  lines_.send(rank, FrameType::entry, "", static_cast<std::uint64_t>(clock));
}

void ServerProcess::on_frame(int rank, const FrameHeader& header, std::vector<std::byte> payload) {
  if (lines_.failed()) return;
  if (header.type == FrameType::heartbeat) return;
  if (header.type == FrameType::goodbye) return on_goodbye(rank);
  if (!take(rank, header, std::move(payload))) {
    return lose(rank, "it sent a frame that the protocol does not have");
  }
  examine();
}

bool ServerProcess::take(int rank, const FrameHeader& header, std::vector<std::byte> payload) {
  if (header.type == FrameType::report) return on_report(rank, Span<const std::byte>(payload));
  if (header.type == FrameType::enter) return on_enter(rank, header);
  if (!steps_.clocks().live(rank) || lines_.is_retired(rank)) return false;
  if (!steps_.take(rank, header, std::move(payload))) return false;
  if (header.type == FrameType::launch) start_watch_.begin();
  if (header.type == FrameType::finish) ending_.stop_soon();
  return true;
}

bool ServerProcess::on_report(int rank, Span<const std::byte> payload) {
  const auto failure = failure_from(payload);
  const auto processes = cluster_.members.size() + cluster_.servers.size();
  if (!failure || static_cast<std::size_t>(failure->culprit) >= processes) return false;
  const bool found_difference = failure->kind == FailureKind::config && !steps_.clocks().live(rank);
  found_difference ? on_difference(rank, *failure) : fail(*failure);
  return true;
}

bool ServerProcess::on_enter(int rank, const FrameHeader& header) {
  if (!steps_.enter(rank, header.sequence)) return false;
  lines_.send(rank, FrameType::entered);
  PaceKeeper& keeper = steps_.keeper();
  if (!keeper.launched()) return true;
  const auto step = keeper.step();
  log_info(task(rank), seat(rank).was_lost ? " has joined again at step " : " joins at step ",
           step);
  keeper.statistics().joined_again.push_back(text(task(rank), " at step ", step));
  lines_.send(rank, FrameType::launched, keeper.launched()->data, static_cast<std::uint64_t>(step));
  return true;
}

void ServerProcess::on_goodbye(int rank) {
  lines_.send(rank, FrameType::goodbye);
  lines_.retire(rank);
  steps_.leave(rank);
  if (rank == 0) {
    steps_.keeper().finish(text(task(0), " has left"));
    ending_.stop_soon();  // for the others
  }
  examine();
}

void ServerProcess::on_closed(int rank, const std::string& reason, FrameFault fault) {
  if (lines_.failed()) return;
  if (fault == FrameFault::bad_checksum) {
    return lose_by(
        rank, "it sent bytes that came damaged",
        bytes_damaged(cluster_, rank, number_of(cluster_), lines_.at(rank)->local_address()));
  }
  if (lines_.is_retired(rank)) return ending_.end_if_left();
  lose(rank, reason + " without a goodbye");
}

// The connection of a worker that is given up stays open until it hangs up: if it was only stopped,
// it reads there, when it runs again, what has happened.
void ServerProcess::lose(int rank, const std::string& how) {
  lose_by(rank, how, peer_lost(cluster_, rank, how));
}

void ServerProcess::lose_by(int rank, const std::string& how, const Failure& failure) {
  const bool took_part = steps_.clocks().live(rank);
  if (rank == 0 && took_part) return fail(failure);
  const auto connection = lines_.drop(rank);
  PaceKeeper& keeper = steps_.keeper();
  const std::int64_t step = keeper.launched() ? keeper.step() : 0;
  steps_.lose(rank);
  seat(rank) = {false, took_part && keeper.launched()};
  if (seat(rank).was_lost) {
    log_warning(task(rank), " is lost at step ", step, "; training continues without it: ", how,
                ".");
    keeper.statistics().lost.push_back(text(task(rank), " at step ", step));
  } else {
    log_debug(task(rank), " left before it took part: ", how, ".");
  }
  if (connection && connection->open()) {
    connection->send(lines_.header_of(FrameType::abort), to_json(failure));
  }
  examine();
}

// Who was lost before it came, or before training began, is known to the launcher alone.
void ServerProcess::await_losses() {
  if (!losses_.is_open()) return;
  losses_.async_read_some(
      boost::asio::buffer(&lost_, sizeof lost_),
      [this](const boost::system::error_code& ended, std::size_t size) {
        if (ended || size != sizeof lost_) return;
        if (lost_ > 0 && lost_ < lines_.count() && !steps_.keeper().launched()) {
          steps_.give_up(lost_);
          examine();
        }
        await_losses();
      });
}

// Everything that has become possible, in an order in which one thing enables the next.
void ServerProcess::examine() {
  if (lines_.failed()) return;
  for (int rank = 0; rank < lines_.count(); ++rank) {
    if (!seat(rank).awaits_clock) continue;
    if (const auto clock = steps_.keeper().assign(rank)) tell_clock(rank, *clock);
  }
  const bool was_launched = steps_.keeper().launched();
  steps_.examine();
  if (lines_.failed()) return;
  if (!was_launched && steps_.keeper().launched()) start_watch_.end();
  ending_.end_if_left();
}

// The chief decides when training begins; once it has, all workers must come.
void ServerProcess::on_start_timeout() {
  if (steps_.keeper().launched() || lines_.failed()) return;
  const std::string missing = waited_for();
  if (missing.empty()) return start_watch_.begin();  // the chief takes its time
  fail(start_timeout(0, "the group did not form at " + cluster_.task(), options_.start_timeout,
                     missing + " did not join", "all parameter servers"));
}

std::string ServerProcess::waited_for() const {
  if (steps_.keeper().launched()) return "";
  if (!lines_.has(0)) return task(0);
  std::vector<std::string> names;
  for (const int rank : steps_.absent()) names.push_back(task(rank));
  return join_names(names);
}

void ServerProcess::fail_by(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const std::string cause = ours != nullptr ? ours->cause() : text(error.what(), ".");
  fail({FailureKind::peer_failed, number_of(cluster_), text(cluster_.task(), " failed: ", cause),
        ours != nullptr ? ours->fix() : "look at its log, then start the whole group again.",
        ours != nullptr ? ours->exit_code() : kExitFailed});
}

}  // namespace troupe
