#include "troupe/distributed/net/tls_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

// One read takes at most this. It begins small, so that a connection that carries little costs
// little, and doubles whenever a read has filled it.
constexpr std::size_t kFirstFillBytes = std::size_t{4} * 1024;
constexpr std::size_t kMaxFillBytes = std::size_t{256} * 1024;

TlsSocket& socket_of(BIO* bio) { return *static_cast<TlsSocket*>(BIO_get_data(bio)); }

int bio_read(BIO* bio, char* to, std::size_t most, std::size_t* bytes) {
  BIO_clear_retry_flags(bio);
  TlsSocket& socket = socket_of(bio);
  if (socket.read(to, most, *bytes)) return 1;
  if (!socket.ended() && socket.error() == 0) BIO_set_retry_read(bio);
  return 0;
}

int bio_write(BIO* bio, const char* from, std::size_t count, std::size_t* bytes) {
  BIO_clear_retry_flags(bio);
  socket_of(bio).write(from, count);
  *bytes = count;
  return 1;
}

long bio_control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;  // the session does, when OpenSSL has said all it can
  if (command == BIO_CTRL_EOF) return socket_of(bio).ended() ? 1 : 0;
  return 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* const method =
      BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "troupe socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_read_ex(method, bio_read);
  BIO_meth_set_write_ex(method, bio_write);
  BIO_meth_set_ctrl(method, bio_control);
  return method;
}

bool means_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

TlsSocket::TlsSocket(int fd) : fd_(fd), in_(kFirstFillBytes) {}

BIO* TlsSocket::make_bio() {
  static BIO_METHOD* const method = make_method();  // for the life of the process
  BIO* const bio = method == nullptr ? nullptr : BIO_new(method);
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  return bio;
}

bool TlsSocket::fill() {
  if (filled_ == in_.size() && in_.size() < kMaxFillBytes) in_.resize(2 * in_.size());
  taken_ = filled_ = 0;
  const ssize_t got = ::recv(fd_, in_.data(), in_.size(), MSG_DONTWAIT);
  if (got > 0) filled_ = static_cast<std::size_t>(got);
  if (got == 0) ended_ = true;
  if (got < 0 && !means_wait(errno)) error_ = errno;
  return got > 0;
}

bool TlsSocket::read(char* to, std::size_t most, std::size_t& bytes) {
  if (!has_unread() && !fill()) return false;
  bytes = std::min(most, filled_ - taken_);
  if (bytes > readable_) {
    error_ = EPROTO;
    return false;
  }
  readable_ -= bytes;
  std::memcpy(to, in_.data() + taken_, bytes);
  taken_ += bytes;
  return true;
}

IoResult TlsSocket::flush() {
  using State = IoResult::State;
  if (!has_unsent()) return {State::moved, 0, 0};
  const ssize_t went =
      ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (went < 0 && !means_wait(errno)) return {State::closed, 0, errno};
  if (went > 0) sent_ += static_cast<std::size_t>(went);
  if (has_unsent()) return {State::would_block, 0, 0};
  drop_unsent();
  return {State::moved, 0, 0};
}

void TlsSocket::drop_unsent() {
  out_.clear();
  sent_ = 0;
}

}  // namespace troupe
