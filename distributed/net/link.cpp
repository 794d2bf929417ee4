#include "troupe/distributed/net/link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "troupe/distributed/net/socket_options.h"

namespace troupe {
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

}  // namespace

Link::Link(UniqueFd connected, std::unique_ptr<TlsSession> tls, int peer)
    : socket_(std::move(connected)),
      tls_(std::move(tls)),
      peer_(peer),
      local_(socket_family(fd()) == AF_UNIX),
      write_bytes_(tls_     ? TlsSession::kWriteBytes
                   : local_ ? kUnixWriteBytes
                            : write_bytes_of(fd())) {}

std::string Link::local_address() const { return local_ ? "" : numeric_address(fd()); }

IoResult Link::write_some(Span<const std::byte> first, Span<const std::byte> second,
                          Span<const std::byte> third) {
  const IoResult result = tls_ ? tls_->write_some(first, second, third)
                               : result_of_call(send_parts(fd(), first, second, third));
  sent_bytes_ += result.bytes;
  return result;
}

IoResult Link::read_some(Span<std::byte> first, Span<std::byte> second) {
  if (tls_) return tls_->read_some(first, second);
  std::array<iovec, 2> parts = {iovec{first.data(), first.size()},
                                iovec{second.data(), second.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return result_of_call(::recvmsg(fd(), &message, MSG_DONTWAIT));
}

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
