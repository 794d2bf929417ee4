#include "troupe/distributed/net/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "troupe/core/checksum.h"
#include "troupe/core/text.h"
#include "troupe/distributed/net/io_result.h"
#include "troupe/distributed/net/socket_options.h"

namespace troupe {
namespace {

// Two signatures of the largest size: no honest use comes near it.
constexpr std::size_t kMaxQueuedBytes = std::size_t{32} * 1024 * 1024;

constexpr std::size_t kReadPiece = std::size_t{1} << 20;
constexpr std::size_t kWritePiece = std::size_t{1} << 20;  // then others have their turn

}  // namespace

std::shared_ptr<Connection> Connection::make(ProvenSocket proven) {
  return std::shared_ptr<Connection>(new Connection(std::move(proven)));
}

Connection::Connection(ProvenSocket proven)
    : wire_(std::move(proven)),
      peer_text_(peer_address(wire_.socket.native_handle())),
      local_address_(numeric_address(wire_.socket.native_handle())),
      incoming_(needs_checksum()) {
  if (peer_text_.empty()) peer_text_ = "an unknown address";
}

void Connection::start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  await_bytes();
}

void Connection::await_bytes() {
  const auto go_on = [self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->open()) return;
    if (self->reads()) self->read_some();
    self->go_on_writing();  // a read may have had to write, too
  };
  if (wire_.tls && wire_.tls->has_pending()) {
    boost::asio::post(wire_.socket.get_executor(), [go_on] { go_on({}); });
  } else {
    wire_.socket.async_wait(StreamSocket::wait_read, go_on);
  }
}

// Without Asio's own reading, as write_some() below: TLS has bytes that no socket tells of.
void Connection::read_some() {
  for (std::size_t budget = kReadPiece; reads() && budget > 0;) {
    const IoResult got = read_now(wire_, incoming_.room());
    if (got.state == IoResult::State::would_block) break;
    if (got.state == IoResult::State::closed) {
      return fail(why_closed(got.error),
                  got.error == EBADMSG ? FrameFault::bad_checksum : FrameFault::none);
    }
    received_bytes_ += got.bytes;
    budget -= std::min(budget, got.bytes);
    const FrameFault fault = incoming_.take(got.bytes);
    if (fault != FrameFault::none) return refuse(fault);
    if (!incoming_.complete()) continue;
    const FrameHeader header = incoming_.header();
    const auto on_frame = on_frame_;  // a copy: the handler may close us
    on_frame(header, incoming_.finish());
  }
  if (reads()) await_bytes();
}

void Connection::refuse(FrameFault fault) {
  fail(fault == FrameFault::bad_version
           ? describe_versions(incoming_.header().version, "this process")
           : text("a frame was refused: ", describe(fault)),
       fault);
}

void Connection::send(FrameHeader header, const std::string& payload) {
  const Span<const std::byte> body(reinterpret_cast<const std::byte*>(payload.data()),
                                   payload.size());
  header.payload_bytes = body.size();
  header.payload_checksum = checksum_of(body);
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
  header.payload_checksum = needs_checksum() ? checksum_of(Span<const std::byte>(*payload)) : 0;
  const auto head = encode_frame(header);
  enqueue({{head.begin(), head.end()}, std::move(payload), std::move(on_written)});
}

void Connection::send_beside(FrameHeader header) {
  if (!open() || closing_) return;
  write_some();
  if (has_unsent()) return;
  send(header, "");
}

void Connection::set_limits(const BulkLimits& limits) { incoming_.set_limits(limits); }

void Connection::enqueue(Outgoing outgoing) {
  if (!open() || closing_) return;
  queued_bytes_ += outgoing.bytes();
  queue_.push_back(std::move(outgoing));
  const BulkLimits& limits = incoming_.limits();
  if (queued_bytes_ > kMaxQueuedBytes + 2 * (limits.rows + limits.state)) {
    return fail("it does not read", FrameFault::none);
  }
  if (queue_.size() == 1) write_some();
  go_on_writing();
}

// Without Asio's own writing: that tells only its handler how far it came, and the handler runs on
// the network thread. Until that has time, what has left would look unsent to send_beside.
void Connection::write_some() {
  if (queue_.empty() && reader_writes()) (void)write_now(wire_, {}, {});
  for (std::size_t budget = kWritePiece; !queue_.empty() && !is_broken_ && budget > 0;) {
    Outgoing& next = queue_.front();
    Span<const std::byte> bulk;
    if (next.bulk) bulk = Span<const std::byte>(*next.bulk);
    const Span<const std::byte> head(next.head);
    const std::size_t of_head = std::min(sent_bytes_, head.size());
    const std::size_t of_bulk = sent_bytes_ - of_head;
    const IoResult taken = write_now(wire_, head.subspan(of_head, head.size() - of_head),
                                     bulk.subspan(of_bulk, bulk.size() - of_bulk));
    if (taken.state != IoResult::State::moved) {
      // A failed write is left to the reader: what the peer said before it went comes first.
      is_broken_ = taken.state == IoResult::State::closed;
      return;
    }
    sent_bytes_ += taken.bytes;
    budget -= std::min(budget, taken.bytes);
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
  if ((!queue_.empty() || reader_writes()) && !is_broken_) {
    is_awaiting_ = true;
    wire_.socket.async_wait(StreamSocket::wait_write, go_on);
  } else if (!written_.empty()) {
    is_awaiting_ = true;
    boost::asio::post(wire_.socket.get_executor(), [go_on] { go_on({}); });
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
  wire_.close();
}

void Connection::fail(const std::string& reason, FrameFault fault) {
  if (!open()) return;
  on_frame_ = nullptr;
  const auto on_closed = std::exchange(on_closed_, nullptr);
  if (fault != FrameFault::bad_checksum) close();  // else the peer can still be told
  if (on_closed) on_closed(reason, fault);
}

}  // namespace troupe
