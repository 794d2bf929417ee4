#include "troupe/distributed/net/handshake.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "troupe/distributed/net/socket_options.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

constexpr const char* kUnproven =
    "it hangs up without proving that it belongs to this job: it holds another secret, or "
    "--insecure is given to one of the two alone";

bool is_connected_to_itself(const StreamSocket& socket) {
  boost::system::error_code no_local;
  boost::system::error_code no_remote;
  return socket.local_endpoint(no_local) == socket.remote_endpoint(no_remote) && !no_local &&
         !no_remote;
}

/// Closes the socket so that its port may be listened on at once: an ordinary end would keep it for
/// a minute (TIME_WAIT).
void abandon(StreamSocket& socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

Handshake::Handshake(StreamSocket socket, OnProven on_proven, OnFailed on_failed)
    : made_{std::move(socket), nullptr, {}},
      on_proven_(std::move(on_proven)),
      on_failed_(std::move(on_failed)),
      limit_(made_.socket.get_executor()) {}

std::shared_ptr<Handshake> Handshake::call(asio::io_context& context,
                                           const StreamSocket::endpoint_type& to,
                                           const Limits& limits, const Credentials& credentials,
                                           const Identity& asked, OnProven on_proven,
                                           OnFailed on_failed) {
  std::shared_ptr<Handshake> made(
      new Handshake(StreamSocket(context), std::move(on_proven), std::move(on_failed)));
  const std::weak_ptr<Handshake> self = made;
  const auto go_on = [self, credentials, asked,
                      limit = limits.proof](const boost::system::error_code& failed) {
    if (const auto alive = self.lock()) alive->connected(failed, credentials, asked, limit);
  };
  StreamSocket& socket = made->made_.socket;
  boost::system::error_code error;
  socket.open(to.protocol(), error);
  if (error) {
    asio::post(context, [go_on, error] { go_on(error); });
    return made;
  }
  prepare_socket(socket.native_handle());
  run_after(made->limit_, limits.connecting, [self] {
    if (const auto alive = self.lock()) alive->made_.close();
  });
  socket.async_connect(to, go_on);
  return made;
}

std::shared_ptr<Handshake> Handshake::answer(StreamSocket socket, const Credentials& credentials,
                                             std::chrono::milliseconds limit, OnProven on_proven,
                                             OnFailed on_failed) {
  std::shared_ptr<Handshake> made(
      new Handshake(std::move(socket), std::move(on_proven), std::move(on_failed)));
  made->begin(credentials, nullptr, limit);
  return made;
}

bool Handshake::has_opened() const { return proof_ ? proof_->has_opened() : has_heard_; }

void Handshake::connected(boost::system::error_code failed, const Credentials& credentials,
                          const Identity& asked, std::chrono::milliseconds limit) {
  limit_.cancel();
  if (!failed && is_connected_to_itself(made_.socket)) {
    abandon(made_.socket);
    failed = asio::error::connection_refused;
  }
  if (failed) {
    const bool is_refused = failed == asio::error::connection_refused;
    return fail(is_refused ? Obstacle::refusal : Obstacle::no_way, failed.message());
  }
  const std::string objection = tune_connected(made_.socket.native_handle());
  if (!objection.empty()) return fail(Obstacle::stranger, objection);
  begin(credentials, &asked, limit);
}

void Handshake::begin(const Credentials& credentials, const Identity* asked,
                      std::chrono::milliseconds limit) {
  const Secret& secret = *credentials.secret;
  const int fd = made_.socket.native_handle();
  const bool by_tls = credentials.encrypt && socket_family(fd) != AF_UNIX;
  if (by_tls && asked != nullptr) {
    made_.tls = TlsSession::client(fd, secret, *asked);
  } else if (by_tls) {
    made_.tls = TlsSession::server(fd, credentials.secret, credentials.task);
  } else if (asked != nullptr) {
    proof_.emplace(secret, *asked);
  } else {
    proof_.emplace(secret, credentials.task);
  }
  const std::weak_ptr<Handshake> self = weak_from_this();
  run_after(limit_, limit, [self] {
    if (const auto alive = self.lock()) alive->fail(Obstacle::silence, "it does not answer");
  });
  asio::post(made_.socket.get_executor(), [self] {
    if (const auto alive = self.lock()) alive->go_on();
  });
}

void Handshake::go_on() {
  if (!on_proven_) return;  // its time is over
  const IoResult step = proof_ ? exchange() : made_.tls->handshake();
  if (step.state == IoResult::State::would_block) return wait();
  if (step.state == IoResult::State::moved) return succeed();
  fail(Obstacle::silence, proof_ && !proof_->why().empty() ? proof_->why() : kUnproven);
}

IoResult Handshake::exchange() {
  for (;;) {
    const std::vector<std::byte> out = proof_->give();
    const bool is_sent = out.empty() || send_now(made_, Span<const std::byte>(out));
    if (!is_sent || proof_->state() == Proof::State::refused) return {IoResult::State::closed};
    if (proof_->state() == Proof::State::proven) return {IoResult::State::moved};
    std::array<std::byte, kOpeningBytes> room{};  // for the longest message
    const IoResult got = read_now(made_, {room.data(), proof_->awaited() - in_.size()});
    if (got.state != IoResult::State::moved) return got;
    in_.insert(in_.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(got.bytes));
    if (in_.size() < proof_->awaited()) continue;
    proof_->take(Span<const std::byte>(in_));
    in_.clear();
  }
}

void Handshake::wait() {
  const bool writes = made_.tls && made_.tls->wants_write();
  made_.socket.async_wait(writes ? StreamSocket::wait_write : StreamSocket::wait_read,
                          [self = weak_from_this()](const boost::system::error_code& error) {
                            const auto alive = self.lock();
                            if (!alive || error) return;
                            alive->has_heard_ = true;
                            alive->go_on();
                          });
}

void Handshake::succeed() {
  limit_.cancel();
  made_.identity = proof_ ? proof_->identity() : made_.tls->identity();
  on_failed_ = nullptr;
  std::exchange(on_proven_, nullptr)(std::move(made_));
}

void Handshake::fail(Obstacle obstacle, const std::string& why) {
  limit_.cancel();
  made_.close();
  on_proven_ = nullptr;
  if (const auto on_failed = std::exchange(on_failed_, nullptr)) on_failed(obstacle, why);
}

}  // namespace troupe
