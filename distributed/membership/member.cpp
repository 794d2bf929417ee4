#include "distributed/membership/member.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/membership/chief.h"
#include "net/address.h"

namespace troupe {
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

using ErrorCode = boost::system::error_code;

// After a refusal that may pass, such as a chief that is about to be restarted.
constexpr std::chrono::milliseconds kRefusedPause{1'000};
constexpr std::chrono::seconds kProgressEvery{5};
// The chief's own limit ends at about the same time, and it knows who is missing.
constexpr std::chrono::milliseconds kChiefVerdict{1'000};

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

MemberPlane::MemberPlane(GroupState& state, asio::io_context& context,
                         std::unique_ptr<Acceptor>& acceptor, const JoinTerms& terms)
    : state_(state),
      context_(context),
      acceptor_(acceptor),
      terms_(terms),
      hello_fingerprint_(cluster_fingerprint(state.cluster)),
      hello_signature_(signature_hash(terms.model_signature)),
      links_(
          state, context, [this] { send(FrameType::ready, ""); },
          [this](const Failure& failure) { report(failure); }),
      liveness_(1, state.options.heartbeat_timeout, std::chrono::steady_clock::now()),
      connector_(context, state.cluster.members[0].address->host,
                 state.cluster.members[0].address->port),
      tick_(context),
      start_limit_(context),
      progress_(context) {}

MemberPlane::~MemberPlane() = default;

void MemberPlane::join() {
  began_ = std::chrono::steady_clock::now();
  start_limit_.expires_after(state_.options.start_timeout);
  start_limit_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_start_timeout();
  });
  log_progress();
  reach("", std::chrono::milliseconds(0));
  on_tick();
}

void MemberPlane::reach(const std::string& why, std::chrono::milliseconds pause) {
  stage_ = Stage::reaching;
  if (connection_) connection_->close();
  connection_ = nullptr;
  connector_.start(pause, why, [this](tcp::socket socket) {
    if (!state_.failed()) on_connected(std::move(socket));
  });
}

void MemberPlane::on_connected(tcp::socket socket) {
  connection_ = Connection::make(std::move(socket));
  ensure_acceptor();
  Hello hello;
  hello.rank = state_.cluster.rank;
  hello.task = state_.cluster.task();
  hello.fingerprint = hello_fingerprint_;
  hello.signature_hash = hello_signature_;
  hello.must_match = terms_.must_match;
  hello.listens = {acceptor_->endpoint().address().to_string(), acceptor_->endpoint().port()};
  connection_->start(
      [this](const FrameHeader& header, const std::vector<std::byte>& payload) {
        on_frame(header, payload);
      },
      [this](const std::string& reason, FrameFault fault) { on_closed(reason, fault); });
  stage_ = Stage::waiting;
  liveness_.heard(0, std::chrono::steady_clock::now());
  send(FrameType::hello, to_json(hello));
}

// A member that has no address in the cluster listens where the chief can see it.
void MemberPlane::ensure_acceptor() {
  if (!acceptor_) {
    const auto local = connection_->socket().local_endpoint().address().to_string();
    acceptor_ = std::make_unique<Acceptor>(context_, local, std::uint16_t{0});
  }
  if (std::exchange(accepting_, true)) return;
  links_.listen(acceptor_->endpoint());
  acceptor_->start([this](FirstFrame first) {
    const bool is_link =
        first.fault == FrameFault::none && first.header.type == FrameType::link_hello;
    if (!is_link) return;  // it is closed with its socket
    links_.take({std::move(first.socket), first.header, std::move(first.payload)});
  });
}

void MemberPlane::on_frame(const FrameHeader& header, const std::vector<std::byte>& payload) {
  liveness_.heard(0, std::chrono::steady_clock::now());
  const Span<const std::byte> body(payload);
  const std::string as_text(reinterpret_cast<const char*>(payload.data()), payload.size());
  switch (header.type) {
    case FrameType::heartbeat:
      return;
    case FrameType::refuse:
      if (const auto refusal = refusal_from(body)) return on_refused(*refusal);
      break;
    case FrameType::waiting:
      missing_ = as_text;
      return;
    case FrameType::signature: {
      const auto found = first_difference(split_lines(as_text), terms_.model_signature);
      const TermsDifference unknown{"its signature", "(unclear)", "(unclear)"};
      return send(FrameType::signature_difference, to_json(found.value_or(unknown)));
    }
    case FrameType::welcome:
      if (const auto welcome = welcome_from(body)) return on_welcome(*welcome);
      break;
    case FrameType::start:
      stage_ = Stage::running;
      start_limit_.cancel();
      progress_.cancel();
      return state_.advance(GroupPhase::started);
    case FrameType::abort:
      if (const auto failure = failure_from(body)) {
        if (failure->culprit < state_.cluster.world_size()) state_.fail(*failure);
        return;
      }
      break;
    case FrameType::goodbye:
      connection_->close();
      return state_.advance(GroupPhase::closed);
    default:
      break;
  }
  lose_chief("it sent a frame that the protocol does not have");
}

void MemberPlane::on_refused(const Refusal& refusal) {
  if (refusal.retry == Retry::yes) return reach("it refused: " + refusal.cause, kRefusedPause);
  const std::string where =
      to_text(state_.cluster.members[0].address->host, state_.cluster.members[0].address->port);
  state_.fail({FailureKind::config, state_.cluster.rank,
               text("the chief ", chief_task(), " at ", where, " refused ", state_.cluster.task(),
                    ": ", refusal.cause),
               refusal.fix, kExitUsage});
}

void MemberPlane::on_welcome(const Welcome& welcome) {
  const auto count = static_cast<std::size_t>(state_.cluster.world_size());
  if (stage_ != Stage::waiting || welcome.endpoints.size() != count) {
    return lose_chief("its welcome does not fit the cluster");
  }
  for (const Endpoint& endpoint : welcome.endpoints) {
    if (state_.options.insecure || is_loopback_host(endpoint.host)) continue;
    state_.fail({FailureKind::config, 0,
                 text("the chief names ", to_text(endpoint.host, endpoint.port),
                      " as a worker's address, outside loopback."),
                 "pass --insecure to every worker on a network that you trust.", kExitUsage});
    return;
  }
  stage_ = Stage::linking;
  links_.begin(welcome);
}

void MemberPlane::on_closed(const std::string& reason, FrameFault fault) {
  connection_ = nullptr;
  if (state_.failed() || state_.phase() == GroupPhase::closed) return;
  if (fault == FrameFault::bad_version) {
    state_.fail({FailureKind::config, 0,
                 text("the chief ", chief_task(), " speaks another protocol version than this ",
                      "worker (", kProtocolVersion, ")."),
                 "run the same build of Troupe on every worker.", kExitUsage});
    return;
  }
  if (stage_ == Stage::reaching || stage_ == Stage::waiting)
    return reach(reason, Connector::kRetryPause);
  lose_chief(reason + " without a goodbye");
}

void MemberPlane::on_tick() {
  const auto now = std::chrono::steady_clock::now();
  liveness_.tick(now);
  if (connection_ && liveness_.lost(0, now)) {
    const double silent = std::chrono::duration<double>(liveness_.silence(0, now)).count();
    const std::string how = text("no heartbeat for ", silent, " s (limit ",
                                 seconds_of(state_.options.heartbeat_timeout), " s)");
    if (stage_ == Stage::waiting) {
      reach(how, Connector::kRetryPause);
    } else {
      lose_chief(how);
    }
  } else if (connection_ && !connection_->has_unsent()) {
    send(FrameType::heartbeat, "");
  }
  const auto usual = tick_of(state_.options);
  tick_.expires_after(connection_ ? liveness_.next_look(0, now, usual) : usual);
  tick_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) on_tick();
  });
}

void MemberPlane::on_start_timeout() {
  if (stage_ == Stage::running || state_.failed()) return;
  if (stage_ != Stage::reaching && !std::exchange(awaits_verdict_, true)) {
    start_limit_.expires_after(kChiefVerdict);
    start_limit_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) on_start_timeout();
    });
    return;
  }
  const double limit = seconds_of(state_.options.start_timeout);
  const std::string chief = describe_member(state_.cluster.members[0]);
  const bool reached = stage_ != Stage::reaching;
  const std::string cause =
      reached && !missing_.empty()
          ? text("the group did not come together in ", limit,
                 " s (limit --start-timeout): ", missing_, " did not join.")
          : text(state_.cluster.task(), " could not join the chief ", chief, " in ", limit,
                 " s (limit --start-timeout): ", connector_.trouble(), ".");
  state_.fail({FailureKind::rendezvous, 0, cause,
               "start every task, and check that each can reach the chief's address.",
               kExitPeerLost});
}

void MemberPlane::log_progress() {
  progress_.expires_after(kProgressEvery);
  progress_.async_wait([this](const ErrorCode& cancelled) {
    if (cancelled || state_.failed()) return;
    const auto waited =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_)
            .count();
    const bool reached = stage_ != Stage::reaching;
    const std::string whom = reached
                                 ? missing_
                                 : text("the chief ", describe_member(state_.cluster.members[0]),
                                        ": ", connector_.trouble());
    log_info("waiting for ", whom, " (", waited, " s of ", seconds_of(state_.options.start_timeout),
             " s)");
    log_progress();
  });
}

void MemberPlane::lose_chief(const std::string& how) {
  if (state_.failed()) return;
  // If the chief was only stopped it reads here, when it runs again, that it was given up.
  const Failure failure = peer_lost(state_.cluster, 0, how);
  send(FrameType::report, to_json(failure));
  state_.fail(failure);
}

void MemberPlane::report(const Failure& failure) {
  if (state_.failed()) return;
  if (!connection_) {
    state_.fail(failure);
    return;
  }
  send(FrameType::report, to_json(failure));
}

void MemberPlane::suspect(int peer, const std::string& what) {
  if (!state_.failed()) send(FrameType::suspect, to_json(Suspicion{peer, what}));
}

void MemberPlane::goodbye() {
  stage_ = Stage::leaving;
  send(FrameType::goodbye, "");
}

void MemberPlane::send(FrameType type, const std::string& payload) {
  if (!connection_) return;
  FrameHeader header;
  header.type = type;
  header.rank = static_cast<std::uint32_t>(state_.cluster.rank);
  header.generation = state_.cluster.generation;
  header.sequence = state_.entered.load(std::memory_order_relaxed);
  connection_->send(header, payload);
}

}  // namespace troupe
