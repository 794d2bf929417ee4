#include "net/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/text.h"
#include "net/address.h"
#include "net/socket_options.h"

namespace troupe {
namespace {

// Two signatures of the largest size: no honest use comes near it.
constexpr std::size_t kMaxQueuedBytes = std::size_t{32} * 1024 * 1024;

constexpr std::size_t kReadPiece = std::size_t{1} << 20;

std::string reason_of(const boost::system::error_code& error) {
  return error == boost::asio::error::eof ? "connection closed" : error.message();
}

}  // namespace

std::shared_ptr<Connection> Connection::make(boost::asio::ip::tcp::socket socket) {
  return std::shared_ptr<Connection>(new Connection(std::move(socket)));
}

Connection::Connection(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
  tune_connected(socket_);
  boost::system::error_code error;
  const auto peer = socket_.remote_endpoint(error);
  peer_text_ = error ? "an unknown address" : to_text(peer);
}

void Connection::start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  read_header();
}

void Connection::read_header() {
  boost::asio::async_read(
      socket_, boost::asio::buffer(header_bytes_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (error) return self->fail(reason_of(error), FrameFault::none);
        self->received_bytes_ += kFrameHeaderBytes;
        FrameFault fault =
            decode_frame({self->header_bytes_.data(), self->header_bytes_.size()}, self->header_);
        if (fault == FrameFault::none) fault = self->check_header();
        if (fault != FrameFault::none) {
          return self->fail(text("a frame was refused: ", describe(fault)), fault);
        }
        self->payload_.resize(self->header_.payload_bytes);  // bounded by type and limits
        self->read_payload(0);
      });
}

// What decode_frame cannot know: which types this connection carries, and how large.
FrameFault Connection::check_header() const {
  if (header_.type == FrameType::data) return FrameFault::bad_enum;
  if (!is_bulk(header_.type)) return FrameFault::none;
  const bool is_state = header_.type == FrameType::state;
  const std::uint64_t limit = is_state ? limits_.state : limits_.rows;
  return header_.payload_bytes <= limit ? FrameFault::none : FrameFault::too_long;
}

// In pieces, so that received_bytes() shows a long payload's progress.
void Connection::read_payload(std::size_t from) {
  if (from == payload_.size()) return check_payload();
  const std::size_t piece = std::min(kReadPiece, payload_.size() - from);
  boost::asio::async_read(socket_, boost::asio::buffer(payload_.data() + from, piece),
                          [self = shared_from_this(), from, piece](
                              const boost::system::error_code& error, std::size_t) {
                            if (error) return self->fail(reason_of(error), FrameFault::none);
                            self->received_bytes_ += piece;
                            self->read_payload(from + piece);
                          });
}

void Connection::check_payload() {
  if (!is_bulk(header_.type) && !payload_.empty() &&
      crc32_of(Span<const std::byte>(payload_)) != header_.payload_crc) {
    return fail("a frame's payload was damaged", FrameFault::bad_checksum);
  }
  deliver();
}

void Connection::deliver() {
  const auto on_frame = on_frame_;  // a copy: the handler may close us
  if (!on_frame) return;
  on_frame(header_, std::exchange(payload_, {}));
  if (open()) read_header();
}

void Connection::send(FrameHeader header, const std::string& payload) {
  const Span<const std::byte> body(reinterpret_cast<const std::byte*>(payload.data()),
                                   payload.size());
  header.payload_bytes = body.size();
  header.payload_crc = body.empty() ? 0 : crc32_of(body);
  const auto head = encode_frame(header);
  Outgoing outgoing;
  outgoing.head.resize(head.size() + body.size());
  std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), outgoing.head.begin()));
  enqueue(std::move(outgoing));
}

void Connection::send_bulk(FrameHeader header,
                           std::shared_ptr<const std::vector<std::byte>> payload,
                           std::function<void()> on_written) {
  header.payload_bytes = payload->size();
  header.payload_crc = 0;
  const auto head = encode_frame(header);
  enqueue({{head.begin(), head.end()}, std::move(payload), std::move(on_written)});
}

// What the socket does not take at once waits for the network thread, as any frame does.
void Connection::send_beside(FrameHeader header) {
  if (!open() || closing_ || has_unsent()) return;
  header.payload_bytes = 0;
  header.payload_crc = 0;
  const auto frame = encode_frame(header);
  const auto taken =
      ::send(socket_.native_handle(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (taken <= 0 || static_cast<std::size_t>(taken) == frame.size()) return;
  enqueue({{frame.begin() + taken, frame.end()}, nullptr, nullptr});
}

void Connection::set_limits(const BulkLimits& limits) { limits_ = limits; }

void Connection::enqueue(Outgoing outgoing) {
  if (!open() || closing_) return;
  queued_bytes_ += outgoing.bytes();
  queue_.push_back(std::move(outgoing));
  if (queued_bytes_ > kMaxQueuedBytes + 2 * (limits_.rows + limits_.state)) {
    return fail("it does not read", FrameFault::none);
  }
  if (queue_.size() == 1) write_next();
}

void Connection::write_next() {
  const Outgoing& next = queue_.front();
  std::array<boost::asio::const_buffer, 2> parts = {boost::asio::buffer(next.head)};
  if (next.bulk) parts[1] = boost::asio::buffer(*next.bulk);
  boost::asio::async_write(
      socket_, parts,
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (!self->open()) return;
        // A failed write is left to the reader: what the peer said before it went comes first.
        if (error) return;
        const Outgoing written = std::move(self->queue_.front());
        self->queue_.pop_front();
        self->queued_bytes_ -= written.bytes();
        if (!self->queue_.empty()) {
          self->write_next();
        } else if (self->closing_) {
          self->close();
        }
        if (written.on_written) written.on_written();
      });
}

void Connection::close_after_writes() {
  closing_ = true;
  if (queue_.empty()) close();
}

void Connection::close() {
  on_frame_ = nullptr;
  on_closed_ = nullptr;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void Connection::fail(const std::string& reason, FrameFault fault) {
  if (!open()) return;
  const auto on_closed = std::exchange(on_closed_, nullptr);
  close();
  if (on_closed) on_closed(reason, fault);
}

}  // namespace troupe
