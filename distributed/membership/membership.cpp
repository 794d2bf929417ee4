#include "troupe/distributed/membership/membership.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/membership/chief.h"
#include "troupe/distributed/membership/credentials.h"
#include "troupe/distributed/membership/member.h"
#include "troupe/distributed/net/address.h"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kAbortWait{1'000};
// The chief's verdict on a join that timed out is about to arrive; see Chief::on_start_timeout.
constexpr std::chrono::milliseconds kJoinSlack{2'000};
// At the limit the chief learns from those in the closing barrier whom they wait for, or says who
// did not say goodbye.
constexpr std::chrono::milliseconds kCloseVerdict{1'000};

void check_hello_fits(const JoinTerms& terms) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : terms.must_match) bytes += name.size() + value.size();
  constexpr std::size_t kMaxTermsBytes = std::size_t{32} * 1024;  // half of a control frame
  if (bytes > kMaxTermsBytes) {
    throw ConfigError(text("the settings that all workers must agree on take ", bytes,
                           " bytes (limit ", kMaxTermsBytes, ")."),
                      "compare a digest of the long ones instead.");
  }
}

void check_cluster(const Cluster& cluster) {
  if (cluster.world_size() == 1) return;
  TROUPE_CHECK(cluster.rank >= 0 && cluster.rank < cluster.world_size());
  TROUPE_CHECK(cluster.members[0].address.has_value());
  if (static_cast<std::uint32_t>(cluster.world_size()) > kMaxWorldSize) {
    throw ConfigError(
        text("the cluster has ", cluster.world_size(), " workers (limit ", kMaxWorldSize, ")."),
        "use fewer workers.");
  }
}

}  // namespace

Membership::Membership(Cluster cluster, const GroupOptions& options)
    : state_(std::move(cluster), options) {
  check_cluster(state_.cluster);
  warn_of_open_traffic(state_.cluster, options);
  if (state_.cluster.world_size() > 1) listen();
}

void Membership::listen() {
  const Cluster& cluster = state_.cluster;
  const auto& own = cluster.member(cluster.rank).address;
  if (const int inherited = cluster.listener.take(); inherited >= 0) {
    acceptor_ = std::make_unique<Acceptor>(network_.context(), inherited);
  } else if (own) {
    acceptor_ = std::make_unique<Acceptor>(network_.context(), own->host, own->port,
                                           state_.options.start_timeout);
  } else {
    return;  // a member without an address listens where its connection to the chief begins
  }
  const auto address = acceptor_->endpoint().address();
  if (!address.is_loopback() && !state_.may_leave_machine()) {
    throw ConfigError(text("the listening socket ", to_text(acceptor_->endpoint()),
                           " is outside loopback, but all addresses of the cluster (from ",
                           cluster.origin, ") are on this machine, where nothing is encrypted."),
                      "listen at the address that the cluster description has for this worker.");
  }
}

JoinedLinks Membership::join(JoinTerms terms) {
  TROUPE_CHECK(plane_ == nullptr);
  if (state_.options.transport != Transport::automatic) {
    terms.must_match["--transport"] = name_of(state_.options.transport);
  }
  check_hello_fits(terms);
  if (state_.cluster.world_size() == 1) {
    state_.advance(GroupPhase::started);
    return {};
  }
  if (state_.cluster.rank == 0) {
    plane_ = std::make_unique<Chief>(state_, network_.context(), *acceptor_, terms);
  } else {
    plane_ = std::make_unique<GroupMember>(state_, network_.context(), acceptor_, terms);
  }
  network_.start([this](const std::string& what) {
    const Failure failure = {
        FailureKind::internal, state_.cluster.rank,
        text("the network thread of ", state_.cluster.task(), " failed: ", what, "."),
        "start the whole group again.", kExitFailed};
    plane_->report(failure);
    state_.fail(failure);
  });
  boost::asio::post(network_.context(), [this] { plane_->join(); });
  const Deadline limit = Deadline::in(state_.options.start_timeout + kJoinSlack);
  const bool in_time = state_.wait_for(GroupPhase::started, limit);
  state_.raise_if_failed("");
  if (!in_time) {
    // This process was stopped, and its network thread has yet to learn what time it is.
    raise(start_timeout(state_.cluster.rank, text(state_.cluster.task(), " did not join the group"),
                        state_.options.start_timeout, "it did not run meanwhile",
                        "the chief's address"),
          state_.cluster, "");
  }
  return std::move(state_.joined);
}

void Membership::report(const Failure& failure) {
  boost::asio::post(network_.context(), [this, failure] { plane_->report(failure); });
}

void Membership::suspect(int peer, const std::string& what) {
  boost::asio::post(network_.context(), [this, peer, what] { plane_->suspect(peer, what); });
}

void Membership::abort(const std::string& reason, int exit_code) {
  const bool sentence = !reason.empty() && reason.back() == '.';
  const Failure failure = {FailureKind::peer_failed, state_.cluster.rank,
                           text(state_.cluster.task(), " failed: ", reason, sentence ? "" : "."),
                           "correct that, then start the whole group again.",
                           std::clamp(exit_code, 1, 255)};
  if (plane_ && !state_.failed() && state_.phase() != GroupPhase::closed) {
    report(failure);
    state_.wait_failed(kAbortWait);  // comes back from the chief when all have been told
  }
  state_.fail(failure);
}

void Membership::leave(const Deadline& deadline) {
  if (plane_) {
    boost::asio::post(network_.context(), [this, deadline] { plane_->goodbye(deadline); });
    const bool in_time = state_.wait_for(GroupPhase::closed, deadline) ||
                         state_.wait_for(GroupPhase::closed, Deadline::in(kCloseVerdict));
    if (state_.phase() != GroupPhase::closed) state_.raise_if_failed("");
    if (!in_time) {
      throw TimeoutError(text("the group did not close within ", deadline.limit_seconds(), " s: ",
                              describe_member(state_.cluster.members[0]), " does not answer."),
                         "look for a worker that hangs; all work was done before.");
    }
  }
  state_.raise_if_failed("");
  state_.advance(GroupPhase::closed);
  network_.stop();
}

}  // namespace troupe
