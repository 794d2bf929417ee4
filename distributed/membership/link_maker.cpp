#include "distributed/membership/link_maker.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "distributed/collectives/topology.h"
#include "distributed/membership/control_lines.h"
#include "net/address.h"
#include "net/socket_options.h"
#include "net/timer.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kRetryPause{100};
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
  Attempt(int with, LinkSocket connected)
      : peer(with), socket(std::move(connected)), timer(socket.get_executor()) {}
  void close() {
    boost::system::error_code ignored;
    timer.cancel();
    socket.close(ignored);
  }
  int peer;
  LinkSocket socket;
  std::chrono::milliseconds patience = kFirstPatience;
  bool local = false;
  asio::steady_timer timer;
  std::vector<std::byte> out;
  std::array<std::byte, kFrameHeaderBytes> in{};
};

LinkMaker::LinkMaker(GroupState& state, asio::io_context& context, std::function<void()> on_done,
                     std::function<void(const Failure&)> on_failure)
    : state_(state),
      context_(context),
      on_done_(std::move(on_done)),
      on_failure_(std::move(on_failure)) {}

void LinkMaker::listen(const asio::ip::tcp::endpoint& endpoint) {
  if (listener_ || state_.options.transport == Transport::tcp) return;
  listener_ = std::make_unique<LinkListener>(context_, endpoint,
                                             [this](LinkHello hello) { take(std::move(hello)); });
  if (!listener_->problem().empty()) log_debug(listener_->problem());
}

void LinkMaker::begin(const Welcome& welcome) {
  welcome_ = welcome;
  const int me = state_.cluster.rank;
  made_.address = welcome.endpoints[static_cast<std::size_t>(me)].host;
  made_.workers_on_this_machine = static_cast<int>(
      std::count_if(welcome.endpoints.begin(), welcome.endpoints.end(),
                    [this](const Endpoint& e) { return e.host == made_.address; }));
  const auto peers = peers_of(state_);
  wanted_ = peers.size();
  for (const int peer : peers) {
    if (peer < me) connect(peer, kFirstPatience);
  }
  while (!early_.empty()) {
    LinkHello hello = std::move(early_.front());
    early_.pop_front();
    answer(std::move(hello));
  }
}

bool LinkMaker::shares_machine(int peer) const {
  const auto& all = welcome_->endpoints;
  return all[static_cast<std::size_t>(peer)].host ==
         all[static_cast<std::size_t>(state_.cluster.rank)].host;
}

void LinkMaker::connect(int peer, std::chrono::milliseconds patience) {
  const Endpoint& to = welcome_->endpoints[static_cast<std::size_t>(peer)];
  const auto attempt = std::make_shared<Attempt>(peer, LinkSocket(context_));
  attempt->patience = patience;
  attempts_.push_back(attempt);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(to.host, error);
  if (error) return retry_later(attempt);
  const asio::ip::tcp::endpoint endpoint(address, to.port);
  attempt->local = state_.options.transport != Transport::tcp && shares_machine(peer) &&
                   by_tcp_.count(peer) == 0;
  const auto target = attempt->local ? LinkSocket::endpoint_type(local_endpoint_of(endpoint))
                                     : LinkSocket::endpoint_type(endpoint);
  attempt->socket.open(target.protocol(), error);
  if (error) return give_up(attempt, Obstacle::no_way, error.message());
  prepare_socket(attempt->socket.native_handle());
  run_after(attempt->timer, patience, [attempt] {
    attempt->patience = std::min(2 * attempt->patience, kLongestPatience);
    attempt->close();
  });
  attempt->socket.async_connect(target, [this, attempt](const boost::system::error_code& failed) {
    if (stopped_) return;
    failed ? give_up(attempt, Obstacle::no_way, failed.message()) : say_hello(attempt);
  });
}

void LinkMaker::say_hello(const std::shared_ptr<Attempt>& attempt) {
  const int fd = attempt->socket.native_handle();
  if (attempt->local) {
    const std::string objection = peer_objection(fd);
    if (!objection.empty()) return give_up(attempt, Obstacle::no_way, objection);
  } else {
    tune_connected(fd);
  }
  FrameHeader header = header_of(state_.cluster, FrameType::link_hello);
  header.payload_bytes = welcome_->session.size();
  header.payload_crc = crc32_of({welcome_->session.data(), welcome_->session.size()});
  const auto head = encode_frame(header);
  attempt->out.assign(head.begin(), head.end());
  attempt->out.insert(attempt->out.end(), welcome_->session.begin(), welcome_->session.end());
  asio::async_write(attempt->socket, asio::buffer(attempt->out),
                    [attempt](const boost::system::error_code&, std::size_t) {});
  asio::async_read(attempt->socket, asio::buffer(attempt->in),
                   [this, attempt](const boost::system::error_code& failed, std::size_t) {
                     if (stopped_) return;
                     const bool accepted = !failed && is_accept(*attempt);
                     if (!accepted || !send_accept(attempt->socket)) {
                       return give_up(attempt, Obstacle::silence, kNoAnswer);
                     }
                     attempt->timer.cancel();
                     add(attempt);
                   });
}

// Another Unix socket would fare no better; TCP may, if it may be used.
void LinkMaker::give_up(const std::shared_ptr<Attempt>& attempt, Obstacle obstacle,
                        const std::string& why) {
  const bool silent = obstacle == Obstacle::silence;
  if (!attempt->local || (silent && state_.options.transport == Transport::unix_socket)) {
    return retry_later(attempt);
  }
  const std::string cause = text("no Unix socket leads from ", state_.cluster.task(), " to ",
                                 state_.cluster.member(attempt->peer).task, ": ", why);
  if (state_.options.transport == Transport::unix_socket) {
    stop();
    return on_failure_({FailureKind::config, attempt->peer, cause + ".",
                        "use --transport auto, or let both run in one network namespace as one "
                        "user.",
                        kExitUsage});
  }
  if (made_.no_unix.empty()) made_.no_unix = cause;
  log_debug(cause, "; TCP is used");
  by_tcp_.insert(attempt->peer);
  attempt->close();
  attempts_.remove(attempt);
  connect(attempt->peer, attempt->patience);
}

void LinkMaker::retry_later(const std::shared_ptr<Attempt>& attempt) {
  attempt->close();
  run_after(attempt->timer, kRetryPause, [this, attempt] {
    if (stopped_) return;
    attempts_.remove(attempt);
    connect(attempt->peer, attempt->patience);
  });
}

void LinkMaker::take(LinkHello hello) {
  if (stopped_) return;
  if (welcome_) return answer(std::move(hello));
  if (early_.size() >= kMaxEarly) early_.pop_front();  // an honest one tries again
  early_.push_back(std::move(hello));
}

void LinkMaker::answer(LinkHello hello) {
  const auto peers = peers_of(state_);
  const int peer = static_cast<int>(hello.header.rank);
  const bool expected = peer > state_.cluster.rank &&
                        std::binary_search(peers.begin(), peers.end(), peer) && !has(peer);
  const bool knows_session = same_session(welcome_->session, Span<const std::byte>(hello.payload));
  if (!expected || !knows_session || hello.header.generation != state_.cluster.generation) return;
  if (!send_accept(hello.socket)) return;
  // The peer may have given this socket up: it is a link once the peer has said so.
  const auto attempt = std::make_shared<Attempt>(peer, std::move(hello.socket));
  attempts_.push_back(attempt);
  asio::async_read(attempt->socket, asio::buffer(attempt->in),
                   [this, attempt](const boost::system::error_code& failed, std::size_t) {
                     if (stopped_) return;
                     const bool confirmed = !failed && is_accept(*attempt) && !has(attempt->peer);
                     confirmed ? add(attempt) : attempts_.remove(attempt);
                   });
}

// 64 bytes always fit into the nearly empty send buffer of a new socket, so this does not block.
bool LinkMaker::send_accept(LinkSocket& socket) const {
  const auto bytes = encode_frame(header_of(state_.cluster, FrameType::link_accept));
  boost::system::error_code failed;
  asio::write(socket, asio::buffer(bytes), failed);
  return !failed;
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
  UniqueFd fd(attempt->socket.release(error));
  attempts_.remove(attempt);
  if (error) return;
  made_.sockets.push_back({attempt->peer, std::move(fd)});
  if (made_.sockets.size() != wanted_) return;
  close_attempts();  // those that peers have given up
  state_.set_links(std::exchange(made_, {}));
  on_done_();
}

bool LinkMaker::has(int peer) const {
  return std::any_of(made_.sockets.begin(), made_.sockets.end(),
                     [peer](const PeerSocket& made) { return made.peer == peer; });
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
}

}  // namespace troupe
