#include "troupe/distributed/membership/link_maker.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "troupe/core/checksum.h"
#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/distributed/membership/control_lines.h"
#include "troupe/distributed/net/address.h"
#include "troupe/distributed/net/connector.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

// A peer that accepts but does not answer may be a stranger on a reused port: try again. It may
// also be busy with hundreds of workers on a slow network: so each silence is borne for twice as
// long.
constexpr std::chrono::milliseconds kFirstPatience{2'000};
constexpr std::chrono::milliseconds kLongestPatience{16'000};
constexpr std::size_t kMaxEarly = 64;
constexpr const char* kNoAnswer = "it does not answer as a worker of this group";

std::vector<int> peers_of(const GroupState& state) {
  const int world_size = state.cluster.world_size();
  return linked_ranks(state.cluster.rank, world_size,
                      group_size_for(world_size, state.options.group_size));
}

}  // namespace

struct LinkMaker::Attempt {
  Attempt(int with, ProvenSocket connected)
      : peer(with), link(std::move(connected)), timer(link.socket.get_executor()) {}
  void close() {
    timer.cancel();
    handshake.reset();
    link.close();
  }
  /// Who waits for the socket reads that it was closed.
  void close_after_patience(const std::shared_ptr<Attempt>& self) {
    run_after(timer, patience, [self] { self->close(); });
  }
  int peer;
  ProvenSocket link;  // once the handshake is over
  std::shared_ptr<Handshake> handshake;
  std::chrono::milliseconds patience = kFirstPatience;
  bool local = false;
  asio::steady_timer timer;
  std::array<std::byte, kFrameHeaderBytes> in{};
  [[nodiscard]] Span<std::byte> room() { return {in.data(), in.size()}; }
};

LinkMaker::LinkMaker(GroupState& state, asio::io_context& context, ControlPlane& plane,
                     std::function<void()> on_done)
    : state_(state), context_(context), plane_(plane), on_done_(std::move(on_done)) {}

void LinkMaker::listen() {
  if (listener_ || state_.options.transport == Transport::tcp) return;
  listener_ = std::make_unique<LinkListener>(
      context_, state_.credentials, [this](Introduction hello) { take(std::move(hello)); });
  if (!listener_->problem().empty()) log_debug(listener_->problem());
}

void LinkMaker::begin(const Welcome& welcome) {
  welcome_ = welcome;
  const int me = state_.cluster.rank;
  made_.address = welcome.endpoints[static_cast<std::size_t>(me)].host;
  made_.workers_on_this_machine = static_cast<int>(
      std::count_if(welcome.endpoints.begin(), welcome.endpoints.end(),
                    [this](const LinkAddress& e) { return e.host == made_.address; }));
  const auto peers = peers_of(state_);
  wanted_ = peers.size();
  for (const int peer : peers) {
    if (peer < me) connect(peer, kFirstPatience);
  }
  while (!early_.empty()) {
    Introduction hello = std::move(early_.front());
    early_.pop_front();
    answer(std::move(hello));
  }
}

void LinkMaker::connect(int peer, std::chrono::milliseconds patience) {
  const LinkAddress& to = welcome_->endpoints[static_cast<std::size_t>(peer)];
  const auto attempt =
      std::make_shared<Attempt>(peer, ProvenSocket{StreamSocket(context_), nullptr, {}});
  attempt->patience = patience;
  attempts_.push_back(attempt);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(to.host, error);
  if (error) return retry_later(attempt);
  attempt->local = state_.options.transport != Transport::tcp && to.host == made_.address &&
                   by_tcp_.count(peer) == 0;
  if (attempt->local && to.local.empty()) {
    return give_up(attempt, Obstacle::no_way, "it does not listen at one");
  }
  const auto target = attempt->local
                          ? StreamSocket::endpoint_type(local_endpoint_of(to.local))
                          : StreamSocket::endpoint_type(asio::ip::tcp::endpoint(address, to.port));
  // The handshake is the attempt's, and does not outlive it.
  const std::weak_ptr<Attempt> whose = attempt;
  const Credentials& mine = state_.credentials;
  const std::string& task = state_.cluster.member(peer).task;
  attempt->handshake = Handshake::call(
      context_, target, {patience, patience}, mine,
      {Purpose::link, mine.generation, mine.task, task},
      [this, whose](ProvenSocket proven) {
        const auto made = whose.lock();
        if (!made) return;
        made->link = std::move(proven);
        made->handshake.reset();
        say_hello(made);
      },
      [this, whose, task](Obstacle obstacle, const std::string& why) {
        const auto made = whose.lock();
        if (!made) return;
        made->handshake.reset();
        if (obstacle == Obstacle::silence) log_debug("no link to ", task, " yet: ", why);
        give_up(made, obstacle, why);
      });
}

void LinkMaker::say_hello(const std::shared_ptr<Attempt>& attempt) {
  attempt->close_after_patience(attempt);
  FrameHeader header = header_of(state_.cluster, FrameType::link_hello);
  header.payload_bytes = welcome_->session.size();
  header.payload_checksum = checksum_of({welcome_->session.data(), welcome_->session.size()});
  const auto head = encode_frame(header);
  std::vector<std::byte> hello(head.begin(), head.end());
  hello.insert(hello.end(), welcome_->session.begin(), welcome_->session.end());
  if (!send_now(attempt->link, Span<const std::byte>(hello))) {
    return give_up(attempt, Obstacle::silence, kNoAnswer);
  }
  read_fully(attempt->link, attempt->room(), [this, attempt](bool complete) {
    if (stopped_) return;
    const bool accepted = complete && is_accept(*attempt);
    if (!accepted || !send_accept(attempt->link)) {
      return give_up(attempt, Obstacle::silence, kNoAnswer);
    }
    attempt->timer.cancel();
    add(attempt);
  });
}

// Another Unix socket would fare no better; TCP may, if it may be used.
void LinkMaker::give_up(const std::shared_ptr<Attempt>& attempt, Obstacle obstacle,
                        const std::string& why) {
  const bool only_unix = state_.options.transport == Transport::unix_socket;
  if (!attempt->local || (obstacle == Obstacle::silence && only_unix)) return retry_later(attempt);
  const std::string cause = text("no Unix socket leads from ", state_.cluster.task(), " to ",
                                 state_.cluster.member(attempt->peer).task, ": ", why);
  if (only_unix && obstacle == Obstacle::refusal) {
    // The peer did listen: it may just have died. Then word of that comes within this time.
    attempt->close();
    return run_after(attempt->timer, state_.options.heartbeat_timeout,
                     [this, attempt, cause] { refuse_unix(attempt->peer, cause); });
  }
  if (only_unix || obstacle == Obstacle::stranger) return refuse_unix(attempt->peer, cause);
  if (made_.no_unix.empty()) made_.no_unix = cause;
  log_debug(cause, "; TCP is used");
  by_tcp_.insert(attempt->peer);
  attempt->close();
  attempts_.remove(attempt);
  connect(attempt->peer, attempt->patience);
}

void LinkMaker::refuse_unix(int peer, const std::string& cause) {
  if (stopped_) return;
  stop();
  plane_.report({FailureKind::config, peer, cause + ".",
                 "let the workers of a machine run in one network namespace as one user, or use "
                 "--transport tcp.",
                 kExitUsage});
}

void LinkMaker::retry_later(const std::shared_ptr<Attempt>& attempt) {
  attempt->close();
  attempt->patience = std::min(2 * attempt->patience, kLongestPatience);
  run_after(attempt->timer, Connector::kRetryPause, [this, attempt] {
    if (stopped_) return;
    attempts_.remove(attempt);
    connect(attempt->peer, attempt->patience);
  });
}

void LinkMaker::take(Introduction hello) {
  if (stopped_ || !is_its_own(hello)) return;
  if (welcome_) return answer(std::move(hello));
  if (early_.size() >= kMaxEarly) early_.pop_front();  // an honest one tries again
  early_.push_back(std::move(hello));
}

void LinkMaker::answer(Introduction hello) {
  if (!is_expected(hello) || !send_accept(hello.from)) return;
  // The peer may have given this socket up: it is a link once the peer has said so.
  const auto attempt =
      std::make_shared<Attempt>(static_cast<int>(hello.header.rank), std::move(hello.from));
  attempts_.push_back(attempt);
  await_last_word(attempt->peer);
  read_fully(attempt->link, attempt->room(), [this, attempt](bool complete) {
    if (stopped_) return;
    const bool confirmed = complete && is_accept(*attempt) && !has(attempt->peer);
    if (confirmed) {
      add(attempt);
    } else {
      attempts_.remove(attempt);
    }
  });
}

/// A peer that has given this attempt up begins another one soon. One that has said its last word
/// takes the link for made, also where that word is lost.
void LinkMaker::await_last_word(int peer) {
  run_after(doubts_.try_emplace(peer, context_).first->second,
            kFirstPatience + state_.options.heartbeat_timeout,
            [this, peer] { plane_.suspect(peer, "it broke while it was made"); });
}

// The rank that it claims must be that of the task that it has proven to be.
bool LinkMaker::is_its_own(const Introduction& hello) const {
  const auto rank = static_cast<int>(hello.header.rank);
  return hello.fault == FrameFault::none && rank < state_.cluster.world_size() &&
         state_.cluster.member(rank).task == hello.from.identity.client;
}

bool LinkMaker::is_expected(const Introduction& hello) const {
  const auto peers = peers_of(state_);
  const int peer = static_cast<int>(hello.header.rank);
  const bool is_wanted = peer > state_.cluster.rank &&
                         std::binary_search(peers.begin(), peers.end(), peer) && !has(peer);
  const Session& session = welcome_->session;
  return is_wanted && hello.header.generation == state_.cluster.generation &&
         same_bytes({session.data(), session.size()}, Span<const std::byte>(hello.payload));
}

// 64 bytes always fit into the nearly empty send buffer of a new socket.
bool LinkMaker::send_accept(ProvenSocket& to) const {
  const auto bytes = encode_frame(header_of(state_.cluster, FrameType::link_accept));
  return send_now(to, {bytes.data(), bytes.size()});
}

bool LinkMaker::is_accept(const Attempt& attempt) const {
  FrameHeader header;
  return decode_frame({attempt.in.data(), attempt.in.size()}, header) == FrameFault::none &&
         header.type == FrameType::link_accept &&
         header.rank == static_cast<std::uint32_t>(attempt.peer) &&
         header.generation == state_.cluster.generation;
}

void LinkMaker::add(const std::shared_ptr<Attempt>& attempt) {
  boost::system::error_code error;
  UniqueFd fd(attempt->link.socket.release(error));
  attempts_.remove(attempt);
  if (error) return;
  doubts_.erase(attempt->peer);
  made_.links.emplace(attempt->peer,
                      Link(std::move(fd), std::move(attempt->link.tls), attempt->peer));
  if (made_.links.size() != wanted_) return;
  close_attempts();  // those that peers have given up
  wanted_ = 0;
  state_.joined = std::exchange(made_, {});
  on_done_();
}

std::vector<int> LinkMaker::lacking() const {
  if (wanted_ == 0) return {};
  std::vector<int> ranks = peers_of(state_);
  const auto is_made = [this](int peer) { return has(peer); };
  ranks.erase(std::remove_if(ranks.begin(), ranks.end(), is_made), ranks.end());
  return ranks;
}

void LinkMaker::stop() {
  stopped_ = true;
  listener_.reset();
  early_.clear();
  close_attempts();
}

void LinkMaker::close_attempts() {
  for (const auto& attempt : attempts_) attempt->close();
  attempts_.clear();
  doubts_.clear();
}

}  // namespace troupe
