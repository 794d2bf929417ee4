#include "troupe/distributed/net/handshake.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "troupe/distributed/net/socket_options.h"
#include "troupe/distributed/net/timer.h"

namespace troupe {
namespace {

constexpr const char* kUnproven =
    "it hangs up without proving that it belongs to this job: it holds another secret, or "
    "--insecure is given to one of the two alone";

}  // namespace

Handshake::Handshake(StreamSocket socket, OnProven on_proven, OnFailed on_failed)
    : made_{std::move(socket), nullptr, {}},
      on_proven_(std::move(on_proven)),
      on_failed_(std::move(on_failed)),
      limit_(made_.socket.get_executor()) {}

std::shared_ptr<Handshake> Handshake::as_client(StreamSocket socket, const Credentials& credentials,
                                                Purpose purpose, const std::string& server,
                                                std::chrono::milliseconds limit, OnProven on_proven,
                                                OnFailed on_failed) {
  const Identity asked{purpose, credentials.generation, credentials.task, server};
  return begin(std::move(socket), credentials, &asked, limit, std::move(on_proven),
               std::move(on_failed));
}

std::shared_ptr<Handshake> Handshake::as_server(StreamSocket socket, const Credentials& credentials,
                                                std::chrono::milliseconds limit, OnProven on_proven,
                                                OnFailed on_failed) {
  return begin(std::move(socket), credentials, nullptr, limit, std::move(on_proven),
               std::move(on_failed));
}

bool Handshake::has_opened() const { return proof_ ? proof_->has_opened() : has_heard_; }

std::shared_ptr<Handshake> Handshake::begin(StreamSocket socket, const Credentials& credentials,
                                            const Identity* asked, std::chrono::milliseconds limit,
                                            OnProven on_proven, OnFailed on_failed) {
  std::shared_ptr<Handshake> made(
      new Handshake(std::move(socket), std::move(on_proven), std::move(on_failed)));
  const Secret& secret = *credentials.secret;
  const int fd = made->made_.socket.native_handle();
  const bool by_tls = credentials.encrypt && socket_family(fd) != AF_UNIX;
  if (by_tls && asked != nullptr) {
    made->made_.tls = TlsSession::client(fd, secret, *asked);
  } else if (by_tls) {
    made->made_.tls = TlsSession::server(fd, credentials.secret, credentials.task);
  } else if (asked != nullptr) {
    made->proof_.emplace(secret, *asked);
  } else {
    made->proof_.emplace(secret, credentials.task);
  }
  const std::weak_ptr<Handshake> self = made;
  run_after(made->limit_, limit, [self] {
    if (const auto alive = self.lock()) alive->fail("it does not answer");
  });
  boost::asio::post(made->made_.socket.get_executor(), [self] {
    if (const auto alive = self.lock()) alive->go_on();
  });
  return made;
}

void Handshake::go_on() {
  if (!on_proven_) return;  // its time is over
  const IoResult step = proof_ ? exchange() : made_.tls->handshake();
  if (step.state == IoResult::State::would_block) return wait();
  if (step.state == IoResult::State::moved) return succeed();
  fail(proof_ && !proof_->why().empty() ? proof_->why() : kUnproven);
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

void Handshake::fail(const std::string& why) {
  limit_.cancel();
  made_.close();
  on_proven_ = nullptr;
  if (const auto on_failed = std::exchange(on_failed_, nullptr)) on_failed(why);
}

}  // namespace troupe
