#include "net/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

#include "core/text.h"
#include "net/address.h"
#include "net/socket_options.h"

namespace troupe {
namespace {

// Two signatures of the largest size: no honest use comes near it.
constexpr std::size_t kMaxQueuedBytes = std::size_t{32} * 1024 * 1024;

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
        const FrameFault fault =
            decode_frame({self->header_bytes_.data(), self->header_bytes_.size()}, self->header_);
        if (fault == FrameFault::none && self->header_.type == FrameType::data) {
          return self->fail("a data frame on a control connection", FrameFault::bad_enum);
        }
        if (fault != FrameFault::none) {
          return self->fail(text("a frame was refused: ", describe(fault)), fault);
        }
        self->read_payload();
      });
}

void Connection::read_payload() {
  payload_.resize(header_.payload_bytes);  // decode_frame has bounded it
  if (payload_.empty()) return deliver();
  boost::asio::async_read(
      socket_, boost::asio::buffer(payload_),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (error) return self->fail(reason_of(error), FrameFault::none);
        if (crc32_of(Span<const std::byte>(self->payload_)) != self->header_.payload_crc) {
          return self->fail("a frame's payload was damaged", FrameFault::bad_checksum);
        }
        self->deliver();
      });
}

void Connection::deliver() {
  const auto on_frame = on_frame_;  // a copy: the handler may close us
  if (!on_frame) return;
  on_frame(header_, std::exchange(payload_, {}));
  if (open()) read_header();
}

void Connection::send(FrameHeader header, const std::string& payload) {
  if (!open() || closing_) return;
  const Span<const std::byte> body(reinterpret_cast<const std::byte*>(payload.data()),
                                   payload.size());
  header.payload_bytes = body.size();
  header.payload_crc = body.empty() ? 0 : crc32_of(body);
  const auto head = encode_frame(header);
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (queued_bytes_ > kMaxQueuedBytes) return fail("it does not read", FrameFault::none);
  if (queue_.size() == 1) write_next();
}

void Connection::write_next() {
  boost::asio::async_write(
      socket_, boost::asio::buffer(queue_.front()),
      [self = shared_from_this()](const boost::system::error_code& error, std::size_t) {
        if (!self->open()) return;
        // A failed write is left to the reader: what the peer said before it went comes first.
        if (error) return;
        self->queued_bytes_ -= self->queue_.front().size();
        self->queue_.pop_front();
        if (!self->queue_.empty()) return self->write_next();
        if (self->closing_) self->close();
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
