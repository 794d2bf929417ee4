#include "troupe/distributed/membership/member.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/options/cluster_reach.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/address.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

// The chief's own limit ends at about the same time, and it knows who is missing.
constexpr std::chrono::milliseconds kChiefVerdict{1'000};

}  // namespace

GroupMember::GroupMember(GroupState& state, asio::io_context& context,
                         std::unique_ptr<Acceptor>& acceptor, const JoinTerms& terms)
    : state_(state),
      context_(context),
      acceptor_(acceptor),
      terms_(terms),
      hello_(make_hello(state.cluster, terms)),
      lines_(context, state.options, state.cluster, 1, *this,
             [this](int) { send(FrameType::heartbeat, ""); }),
      links_(state, context, *this, [this] { send(FrameType::ready, ""); }),
      connector_(context, chief().address->host, chief().address->port, state.credentials,
                 Purpose::control, chief().task),
      start_watch_(
          context, state.options.start_timeout, [this] { return waited_for(); },
          [this] { on_start_timeout(); }) {}

void GroupMember::join() {
  start_watch_.begin();
  reach("", std::chrono::milliseconds(0));
  lines_.start();
}

void GroupMember::reach(const std::string& why, std::chrono::milliseconds pause) {
  stage_ = Stage::reaching;
  if (const auto former = lines_.drop(0)) former->close();
  connector_.start(pause, why, [this](ProvenSocket proven) {
    if (!state_.failed()) on_connected(std::move(proven));
  });
}

void GroupMember::on_connected(ProvenSocket proven) {
  const auto connection = Connection::make(std::move(proven));
  ensure_acceptor(*connection);
  const auto here = acceptor_->endpoint();
  hello_.listens = {here.address().to_string(), here.port(), links_.local_digits()};
  lines_.take(0, connection);
  stage_ = Stage::waiting;
  send(FrameType::hello, to_json(hello_));
}

// A member that has no address in the cluster listens where the chief can see it.
void GroupMember::ensure_acceptor(const Connection& connection) {
  if (!acceptor_) {
    acceptor_ = std::make_unique<Acceptor>(context_, connection.local_address(), std::uint16_t{0});
  }
  if (std::exchange(accepting_, true)) return;
  links_.listen();
  acceptor_->start(state_.credentials, [this](Introduction first) {
    if (first.purpose() == Purpose::link) links_.take(std::move(first));  // else it is closed
  });
}

void GroupMember::on_frame(int /*chief*/, const FrameHeader& header,
                           std::vector<std::byte> payload) {
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
    case FrameType::signature:
      if (on_signature(as_text)) return;
      break;
    case FrameType::welcome:
      if (const auto welcome = welcome_from(body)) return on_welcome(*welcome);
      break;
    case FrameType::start:
      stage_ = Stage::running;
      start_watch_.end();
      return state_.advance(GroupPhase::started);
    case FrameType::abort: {
      const auto failure = failure_from(body);
      if (!failure || failure->culprit >= state_.cluster.world_size()) break;
      state_.fail(*failure);
      return;
    }
    case FrameType::goodbye:
      lines_.drop(0)->close();
      return state_.advance(GroupPhase::closed);
    default:
      break;
  }
  lose_chief("it sent a frame that the protocol does not have");
}

// The chief and this worker have other models; the chief waits to hear where they part.
bool GroupMember::on_signature(const std::string& lines) {
  const auto found = first_difference(split_lines(lines), terms_.model_signature);
  if (!found) return false;
  report(terms_differ(state_.cluster.rank, "the model at " + found->name, *found, chief().task,
                      state_.cluster.task()));
  return true;
}

void GroupMember::on_refused(const Refusal& refusal) {
  if (refusal.retry == Retry::yes)
    return reach("it refused: " + refusal.cause, Connector::kRefusedPause);
  state_.fail({FailureKind::config, state_.cluster.rank,
               text("the chief ", describe_member(chief()), " refused ", state_.cluster.task(),
                    ": ", refusal.cause),
               refusal.fix, kExitUsage});
}

void GroupMember::on_welcome(const Welcome& welcome) {
  const auto count = static_cast<std::size_t>(state_.cluster.world_size());
  if (stage_ != Stage::waiting || welcome.endpoints.size() != count) {
    return lose_chief("its welcome does not fit the cluster");
  }
  for (const LinkAddress& address : welcome.endpoints) {
    if (state_.may_leave_machine() || is_loopback_host(address.host)) continue;
    state_.fail({FailureKind::config, 0,
                 text("the chief names ", to_text(address.host, address.port),
                      " as a worker's address, but all of the cluster's are on this machine, where "
                      "nothing is encrypted."),
                 "give the cluster description the addresses that the workers have.", kExitUsage});
    return;
  }
  stage_ = Stage::linking;
  missing_.clear();
  links_.begin(welcome);
}

void GroupMember::on_closed(int /*chief*/, const std::string& reason, FrameFault fault) {
  if (state_.failed() || state_.phase() == GroupPhase::closed) return;
  if (fault == FrameFault::bad_version) {
    state_.fail(other_version(state_.cluster, "the chief " + chief().task, reason));
    return;
  }
  if (stage_ == Stage::reaching || stage_ == Stage::waiting)
    return reach(reason, Connector::kRetryPause);
  if (fault == FrameFault::bad_checksum) {
    return lose_chief_by(
        bytes_damaged(state_.cluster, 0, state_.cluster.rank, lines_.at(0)->local_address()));
  }
  lose_chief(reason + " without a goodbye");
}

void GroupMember::lose(int /*chief*/, const std::string& how) {
  stage_ == Stage::waiting ? reach(how, Connector::kRetryPause) : lose_chief(how);
}

void GroupMember::on_start_timeout() {
  if (stage_ == Stage::running || state_.failed()) return;
  if (stage_ != Stage::reaching && !std::exchange(awaits_verdict_, true)) {
    return start_watch_.extend(kChiefVerdict);
  }
  // The chief knows whose links are not made.
  if (stage_ == Stage::linking && links_.lacking().empty()) return report(overdue());
  // Else the chief takes this worker for one that is missing, or lost.
  lose_chief_by(overdue());
}

// Why it took too long, as far as this worker knows.
Failure GroupMember::overdue() const {
  std::string what = "the group did not form";
  std::string why;
  if (stage_ == Stage::linking) {
    why = waited_for() + " are not made";
  } else if (stage_ == Stage::waiting && !missing_.empty()) {
    why = missing_ + " did not join";
  } else {
    what = text(state_.cluster.task(), " could not join the chief ", describe_member(chief()));
    why = connector_.trouble();
  }
  return start_timeout(0, what, state_.options.start_timeout, why, "the chief's address");
}

std::string GroupMember::waited_for() const {
  if (stage_ == Stage::running || state_.failed()) return "";
  if (stage_ == Stage::waiting) return missing_;
  if (stage_ == Stage::linking) {
    std::vector<std::string> names;
    for (const int peer : links_.lacking()) names.push_back(state_.cluster.member(peer).task);
    return names.empty() ? std::string("the links of the others")
                         : text("the links of ", state_.cluster.task(), " to ", join_names(names));
  }
  return text("the chief ", describe_member(chief()), ": ", connector_.trouble());
}

void GroupMember::lose_chief(const std::string& how) {
  lose_chief_by(peer_lost(state_.cluster, 0, how));
}

void GroupMember::lose_chief_by(const Failure& failure) {
  if (state_.failed()) return;
  // If the chief was only stopped it reads here, when it runs again, that it was given up.
  send(FrameType::report, to_json(failure));
  state_.fail(failure);
}

void GroupMember::report(const Failure& failure) {
  if (state_.failed()) return;
  if (lines_.has(0)) return send(FrameType::report, to_json(failure));
  state_.fail(failure);
}

void GroupMember::suspect(int peer, const std::string& what) {
  if (!state_.failed()) send(FrameType::suspect, to_json(Suspicion{peer, what}));
}

void GroupMember::goodbye(const Deadline& /*limit*/) { send(FrameType::goodbye, ""); }

void GroupMember::send(FrameType type, const std::string& payload) {
  lines_.send(0, type, payload, state_.entered.load(std::memory_order_relaxed));
}

}  // namespace troupe
