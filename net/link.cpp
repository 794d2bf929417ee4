#include "net/link.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>

#include "net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

// One write moves at most this much: more than a segment or two at a time brings nothing, and
// 262144 halved the rate. Source: docs/performance.md.
constexpr std::size_t kMaxWriteBytes = std::size_t{64} * 1024;
constexpr std::size_t kSegmentAlignment = 64;  // a cache line
// A Unix socket has no segments: what matters is that few calls move what fits into its buffer, and
// that both sides work at the same time. Source: docs/performance.md.
constexpr std::size_t kUnixWriteBytes = std::size_t{256} * 1024;

std::size_t write_bytes_of(int fd) {
  int segment = 0;
  socklen_t size = sizeof(segment);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &size) != 0 || segment <= 0) {
    return kMaxWriteBytes;
  }
  const std::size_t aligned = std::max(
      static_cast<std::size_t>(segment) / kSegmentAlignment * kSegmentAlignment, kSegmentAlignment);
  return std::max(kMaxWriteBytes / aligned, std::size_t{1}) * aligned;
}

IoResult result_of(const boost::system::error_code& error, std::size_t bytes) {
  using State = IoResult::State;
  if (!error) return {State::moved, bytes, 0};
  if (error == asio::error::would_block || error == asio::error::try_again ||
      error == asio::error::interrupted) {
    return {State::would_block, 0, 0};
  }
  return {State::closed, 0, error == asio::error::eof ? 0 : error.value()};
}

}  // namespace

struct LinkContext::State {
  asio::io_context context{1};
};

LinkContext::LinkContext() : state_(std::make_unique<State>()) {}
LinkContext::~LinkContext() = default;

struct Link::Socket {
  explicit Socket(asio::io_context& context) : stream(context) {}
  asio::generic::stream_protocol::socket stream;
};

Link::Link(LinkContext& context, UniqueFd connected, int peer)
    : socket_(std::make_unique<Socket>(context.state_->context)), peer_(peer) {
  const int family = socket_family(connected.get());
  local_ = family == AF_UNIX;
  socket_->stream.assign({family, local_ ? 0 : IPPROTO_TCP}, connected.get());
  static_cast<void>(connected.release());  // the stream has it
  socket_->stream.non_blocking(true);
  write_bytes_ = local_ ? kUnixWriteBytes : write_bytes_of(fd());
}

Link::~Link() = default;
Link::Link(Link&&) noexcept = default;
Link& Link::operator=(Link&&) noexcept = default;

int Link::fd() const { return socket_->stream.native_handle(); }

std::string Link::local_address() const {
  return local_ ? "" : numeric_address(socket_->stream.native_handle());
}

IoResult Link::write_some(Span<const std::byte> first, Span<const std::byte> second) {
  const std::array<asio::const_buffer, 2> buffers = {
      asio::const_buffer(first.data(), first.size()),
      asio::const_buffer(second.data(), second.size())};
  boost::system::error_code error;
  const std::size_t bytes = socket_->stream.write_some(buffers, error);
  sent_bytes_ += bytes;
  return result_of(error, bytes);
}

IoResult Link::read_some(Span<std::byte> first, Span<std::byte> second) {
  const std::array<asio::mutable_buffer, 2> buffers = {
      asio::mutable_buffer(first.data(), first.size()),
      asio::mutable_buffer(second.data(), second.size())};
  boost::system::error_code error;
  const std::size_t bytes = socket_->stream.read_some(buffers, error);
  return result_of(error, bytes);
}

namespace {

// One byte and room for one descriptor, as sendmsg(2) and recvmsg(2) want them.
struct FileMessage {
  FileMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

IoResult result_of_call(ssize_t moved) {
  using State = IoResult::State;
  if (moved > 0) return {State::moved, static_cast<std::size_t>(moved), 0};
  if (moved == 0) return {State::closed, 0, 0};
  const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return again ? IoResult{State::would_block, 0, 0} : IoResult{State::closed, 0, errno};
}

}  // namespace

IoResult Link::send_file(int fd) {
  FileMessage message;
  if (fd < 0) {
    message.header.msg_controllen = 0;
  } else {
    cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(fd));
    std::memcpy(CMSG_DATA(control), &fd, sizeof(fd));
  }
  const IoResult result =
      result_of_call(::sendmsg(this->fd(), &message.header, MSG_DONTWAIT | MSG_NOSIGNAL));
  sent_bytes_ += result.bytes;
  return result;
}

IoResult Link::receive_file(UniqueFd& file) {
  FileMessage message;
  const IoResult result =
      result_of_call(::recvmsg(this->fd(), &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
  file.reset();
  if (result.state != IoResult::State::moved) return result;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  const bool has_file = control != nullptr && control->cmsg_level == SOL_SOCKET &&
                        control->cmsg_type == SCM_RIGHTS &&
                        control->cmsg_len == CMSG_LEN(sizeof(int));
  int fd = -1;
  if (has_file) std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
  file.reset(fd);
  return result;
}

}  // namespace troupe
