#include "troupe/strategies/parameter_server/wire/server_client.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cmath>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/trace.h"
#include "troupe/distributed/membership/failure.h"
#include "troupe/distributed/net/network_thread.h"
#include "troupe/strategies/parameter_server/wire/row_messages.h"
#include "troupe/strategies/parameter_server/wire/server_links.h"
#include "troupe/strategies/parameter_server/wire/server_messages.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kAbortWait{1'000};
constexpr std::chrono::milliseconds kProgressEvery{5'000};
// The servers' own limits end first, and they know who is missing.
constexpr std::chrono::milliseconds kServersVerdict{2'000};

}  // namespace

ServerClient::ServerClient(Cluster cluster, GroupOptions options, ServerOptions pace,
                           ServedModel model)
    : cluster_(std::move(cluster)),
      options_(options),
      pace_(pace),
      model_(std::move(model)),
      network_(std::make_unique<NetworkThread>()),
      heard_(cluster_.servers.size()) {
  check_server_cluster(cluster_, options_);
}

ServerClient::~ServerClient() { network_->stop(); }

void ServerClient::join(const JoinTerms& terms) {
  links_ = std::make_unique<ServerLinks>(
      cluster_, options_, model_, server_terms(terms, pace_, model_), network_->context(), inbox_);
  network_->start([this](const std::string& what) {
    links_->fail({FailureKind::internal, cluster_.rank,
                  text("the network thread of ", cluster_.task(), " failed: ", what, "."),
                  "start the whole group again.", kExitFailed});
  });
  boost::asio::post(network_->context(), [this] { links_->join(); });
  const Deadline deadline = Deadline::in(options_.start_timeout);
  const Answered entry = [this](int server) { return heard(server).entry.has_value(); };
  try {
    await("let it in", options_.start_timeout, nullptr, entry);
    clock_ = *heard(0).entry;
    // Server 0 lets nobody pass our clock until it reads that all others know of us.
    for (int server = 1; server < servers(); ++server) send(server, FrameType::enter, clock_);
    const auto entered = [this](int server) { return server == 0 || heard(server).entered; };
    await("let it in", deadline.remaining(), nullptr, entered);
    send(0, FrameType::enter, clock_);
    await("let it in", deadline.remaining(), nullptr,
          [this](int server) { return heard(server).entered; });
  } catch (const TimeoutError&) {
    throw RendezvousError(
        text(cluster_.task(), " could not join all parameter servers in ", deadline.limit_seconds(),
             " s (limit --start-timeout): ", unanswered(entry), "."),
        "start every task, and check that each can reach the parameter servers' addresses.");
  }
}

void ServerClient::start(const std::vector<std::vector<std::byte>>& states, std::int64_t step,
                         std::int64_t last_step, const std::string& data) {
  TROUPE_CHECK_EQ(states.size(), cluster_.servers.size());
  TROUPE_CHECK(cluster_.rank == 0);
  for (int server = 0; server < servers(); ++server) {
    send_bulk(server, FrameType::state, states[static_cast<std::size_t>(server)]);
    send(server, FrameType::launch, 0, to_json(Launch{step, last_step, data}));
  }
  static_cast<void>(wait_for_start());
}

std::int64_t ServerClient::wait_for_start() {
  await("begin training", options_.start_timeout + kServersVerdict, nullptr,
        [this](int server) { return heard(server).launched.has_value(); });
  is_started_ = true;
  return heard(0).launched->step;
}

StepAnswer ServerClient::begin(const Install& install) {
  const Traced traced("begin step");
  raise_if_failed();
  if (!end_.ended.empty()) return end_;
  send_to_all(FrameType::begin, clock_);
  const auto over = [this] { return heard(0).step && !heard(0).step->ended.empty(); };
  await("let it take a step", options_.collective_timeout, install,
        [&](int server) { return heard(server).step || over(); });
  const StepAnswer answer = *heard(0).step;
  if (over()) {
    end_ = answer;
    return answer;
  }
  if (!answer.step)
    throw PeerLost(text(cluster_.servers[0].task, " granted a step without a number."), "");
  for (Heard& from : heard_) from.step.reset();
  pushes_ = 0;
  dropped_ = false;
  return answer;
}

bool ServerClient::push(const Push& push, const Install& install) {
  const Traced traced("push gradients");
  raise_if_failed();
  PushPlace place;
  place.clock = clock_;
  place.sequence = ++pushes_;
  if (dropped_) return true;
  if (!pace_.synchronous()) {
    for (int server = 0; server < servers(); ++server) {
      if (!inbox_.wait_written(server, Deadline::in(options_.collective_timeout))) {
        raise_if_failed();
        throw TimeoutError(text(cluster_.task(), " could not send its gradients to ",
                                describe_member(cluster_.servers[static_cast<std::size_t>(server)]),
                                " in ", Seconds(options_.collective_timeout).count(), " s."),
                           "look at that server's log.");
      }
      send_push(server, place, push);
    }
    return true;
  }
  for (Heard& from : heard_) from.push.reset();
  for (int server = 0; server < servers(); ++server) send_push(server, place, push);
  await("take its gradients", options_.collective_timeout, install,
        [this](int server) { return heard(server).push.has_value(); });
  dropped_ = *heard(0).push == PushOutcome::ended;
  return std::any_of(heard_.begin(), heard_.end(), [](const Heard& from) {
    return *from.push != PushOutcome::without_gradients;
  });
}

void ServerClient::send_push(int server, const PushPlace& place, const Push& push) {
  auto message = encode_push(place, push, model_, server);
  pushed_ += static_cast<std::int64_t>(message.size());
  const Traced traced("send to server", message.size());
  send_bulk(server, FrameType::push, std::move(message));
}

void ServerClient::end() {
  raise_if_failed();
  ++clock_;
  send_to_all(FrameType::end, clock_);
}

ServerClient::Collected ServerClient::collect(const Install& install) {
  raise_if_failed();
  for (Heard& from : heard_) from.held.reset(), from.collected.reset();
  send(0, FrameType::hold, 0);
  await("hold the workers back", options_.collective_timeout, install,
        [this](int server) { return server > 0 || heard(server).held; });
  send_to_all(FrameType::collect, 0, to_json(*heard(0).held));
  await("send its state", options_.collective_timeout, install,
        [this](int server) { return heard(server).collected.has_value(); });
  send(0, FrameType::release, 0);
  Collected collected;
  collected.step = *heard(0).collected;
  for (Heard& from : heard_) collected.states.push_back(std::exchange(from.state, {}));
  return collected;
}

PaceStatistics ServerClient::finish(const std::string& reason) {
  raise_if_failed();
  end_.ended = reason;
  send_to_all(FrameType::finish, 0, finish_to_json(reason));
  await("see all workers leave", options_.close_timeout + kServersVerdict, nullptr,
        [this](int server) { return server > 0 || heard(server).statistics; });
  return *heard(0).statistics;
}

void ServerClient::abort(const std::string& reason, int exit_code) noexcept try {
  const bool sentence = !reason.empty() && reason.back() == '.';
  const Failure failure = {FailureKind::peer_failed, cluster_.rank,
                           text(cluster_.task(), " failed: ", reason, sentence ? "" : "."),
                           "correct that, then start the whole group again.",
                           std::clamp(exit_code, 1, 255)};
  if (links_ && !inbox_.failure()) {
    boost::asio::post(network_->context(), [this, failure] { links_->fail(failure); });
    inbox_.wait_failed(Deadline::in(kAbortWait));
  }
  inbox_.fail(failure);
} catch (...) {
  // Out of memory while failing: the servers see our connections close instead.
}

void ServerClient::close() {
  raise_if_failed();
  if (!links_) return;
  boost::asio::post(network_->context(), [this] { links_->goodbye(); });
  await("say goodbye", options_.close_timeout, nullptr,
        [this](int server) { return heard(server).goodbye; });
  network_->stop();
}

void ServerClient::await(const std::string& what, std::chrono::milliseconds limit,
                         const Install& install, const Answered& answered) {
  const Deadline deadline = Deadline::in(limit);
  const auto all = [&] {
    for (int server = 0; server < servers(); ++server) {
      if (!answered(server)) return false;
    }
    return true;
  };
  while (!all()) {
    const bool is_last_wait = is_started_ || deadline.remaining() <= kProgressEvery;
    auto arrival = inbox_.next(is_last_wait ? deadline : Deadline::in(kProgressEvery));
    if (arrival) {
      take(std::move(*arrival), install);
      continue;
    }
    raise_if_failed();
    if (!is_last_wait) {
      log_info("waiting for ", unanswered(answered), " to ", what, " (",
               std::lround(deadline.elapsed_seconds()), " s of ", deadline.limit_seconds(), " s)");
      continue;
    }
    throw TimeoutError(text(cluster_.task(), " waited ", deadline.limit_seconds(), " s for ",
                            unanswered(answered), " to ", what, "."),
                       "look at the logs of those that it names.");
  }
}

void ServerClient::take(Arrival arrival, const Install& install) {
  const int server = arrival.server;
  if (arrival.header.type == FrameType::values) {
    const auto blocks = decode_values(Span<const std::byte>(arrival.payload), model_, server);
    if (blocks) {
      pulled_ += static_cast<std::int64_t>(arrival.payload.size());
      if (!install) return;
      for (const RowBlock& block : *blocks) install(block);
      return;
    }
  } else if (take_down(heard(server), arrival)) {
    return;
  }
  boost::asio::post(network_->context(), [this, server] {
    links_->fail(peer_lost(cluster_, cluster_.world_size() + server,
                           "it sent a frame that the protocol does not have"));
  });
  inbox_.wait_failed(Deadline::in(kAbortWait));
}

std::string ServerClient::unanswered(const Answered& answered) const {
  std::vector<std::string> names;
  for (int server = 0; server < servers(); ++server) {
    if (answered(server)) continue;
    const std::string note = inbox_.note_of(server);
    names.push_back(text(describe_member(cluster_.servers[static_cast<std::size_t>(server)]),
                         note.empty() ? "" : " (" + note + ")"));
  }
  return troupe::join(names);
}

void ServerClient::send_to_all(FrameType type, std::int64_t sequence, const std::string& payload) {
  for (int server = 0; server < servers(); ++server) send(server, type, sequence, payload);
}

void ServerClient::send(int server, FrameType type, std::int64_t sequence,
                        const std::string& payload) {
  boost::asio::post(network_->context(), [this, server, type, sequence, payload] {
    links_->send(server, type, static_cast<std::uint64_t>(sequence), payload);
  });
}

void ServerClient::send_bulk(int server, FrameType type, std::vector<std::byte> payload) {
  inbox_.push_posted(server);
  auto shared = std::make_shared<const std::vector<std::byte>>(std::move(payload));
  boost::asio::post(network_->context(),
                    [this, server, type, shared = std::move(shared)]() mutable {
                      links_->send_bulk(server, type, std::move(shared),
                                        [this, server] { inbox_.push_written(server); });
                    });
}

void ServerClient::raise_if_failed() const {
  if (const auto failure = inbox_.failure()) raise(*failure, cluster_, "");
}

}  // namespace troupe
