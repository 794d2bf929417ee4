#include "net/link.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "net/socket_options.h"

namespace troupe {
namespace asio = boost::asio;

namespace {

// One write moves at most this much: more than a segment or two at a time brings nothing, and
// 262144 halved the rate. Source: docs/performance.md.
constexpr std::size_t kMaxWriteBytes = std::size_t{64} * 1024;
constexpr std::size_t kSegmentAlignment = 64;  // a cache line

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
  asio::ip::tcp::socket stream;
};

Link::Link(LinkContext& context, int connected_fd, int peer)
    : socket_(std::make_unique<Socket>(context.state_->context)), peer_(peer) {
  const bool v6 = is_ipv6_socket(connected_fd);
  socket_->stream.assign(v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), connected_fd);
  socket_->stream.non_blocking(true);
  write_bytes_ = write_bytes_of(connected_fd);
}

Link::~Link() = default;
Link::Link(Link&&) noexcept = default;
Link& Link::operator=(Link&&) noexcept = default;

int Link::fd() const { return socket_->stream.native_handle(); }

std::string Link::local_address() const {
  return socket_->stream.local_endpoint().address().to_string();
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

}  // namespace troupe
