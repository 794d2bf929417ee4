#include "net/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <cerrno>
#include <utility>

#include "core/text.h"
#include "net/address.h"
#include "net/socket_options.h"

namespace troupe {
namespace {

// Two signatures of the largest size: no honest use comes near it.
constexpr std::size_t kMaxQueuedBytes = std::size_t{32} * 1024 * 1024;

constexpr std::size_t kReadPiece = std::size_t{1} << 20;
constexpr std::size_t kWritePiece = std::size_t{1} << 20;  // then others have their turn

std::string reason_of(const boost::system::error_code& error) {
  return error == boost::asio::error::eof ? "connection closed" : error.message();
}

}  // namespace

std::shared_ptr<Connection> Connection::make(boost::asio::ip::tcp::socket socket) {
  return std::shared_ptr<Connection>(new Connection(std::move(socket)));
}

Connection::Connection(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
  tune_connected(socket_.native_handle());
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
        if (fault == FrameFault::bad_version) {
          return self->fail(describe_versions(self->header_.version, "this process"), fault);
        }
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

void Connection::send_beside(FrameHeader header) {
  if (!open() || closing_) return;
  write_some();
  if (has_unsent()) return;
  send(header, "");
}

void Connection::set_limits(const BulkLimits& limits) { limits_ = limits; }

void Connection::enqueue(Outgoing outgoing) {
  if (!open() || closing_) return;
  queued_bytes_ += outgoing.bytes();
  queue_.push_back(std::move(outgoing));
  if (queued_bytes_ > kMaxQueuedBytes + 2 * (limits_.rows + limits_.state)) {
    return fail("it does not read", FrameFault::none);
  }
  if (queue_.size() == 1) write_some();
  go_on_writing();
}

// Without Asio's own writing: that tells only its handler how far it came, and the handler runs on
// the network thread. Until that has time, what has left would look unsent to send_beside.
void Connection::write_some() {
  for (std::size_t budget = kWritePiece; !queue_.empty() && !is_broken_ && budget > 0;) {
    Outgoing& next = queue_.front();
    Span<const std::byte> bulk;
    if (next.bulk) bulk = Span<const std::byte>(*next.bulk);
    const Span<const std::byte> head(next.head);
    const std::size_t of_head = std::min(sent_bytes_, head.size());
    const std::size_t of_bulk = sent_bytes_ - of_head;
    const ssize_t taken =
        send_parts(socket_.native_handle(), head.subspan(of_head, head.size() - of_head),
                   bulk.subspan(of_bulk, bulk.size() - of_bulk));
    if (taken < 0) {
      // A failed write is left to the reader: what the peer said before it went comes first.
      is_broken_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
      return;
    }
    sent_bytes_ += static_cast<std::size_t>(taken);
    budget -= std::min(budget, static_cast<std::size_t>(taken));
    if (sent_bytes_ < next.bytes()) continue;
    queued_bytes_ -= next.bytes();
    sent_bytes_ = 0;
    if (next.on_written) written_.push_back(std::move(next.on_written));
    queue_.pop_front();
  }
}

void Connection::go_on_writing() {
  if (is_awaiting_ || !open()) return;
  const auto go_on = [self = shared_from_this()](const boost::system::error_code& error) {
    self->is_awaiting_ = false;
    if (error || !self->open()) return;
    self->write_some();
    for (const auto& on_written : std::exchange(self->written_, {})) on_written();
    self->go_on_writing();
  };
  if (!queue_.empty() && !is_broken_) {
    is_awaiting_ = true;
    socket_.async_wait(boost::asio::ip::tcp::socket::wait_write, go_on);
  } else if (!written_.empty()) {
    is_awaiting_ = true;
    boost::asio::post(socket_.get_executor(), [go_on] { go_on({}); });
  } else if (queue_.empty() && closing_) {
    close();
  }
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
