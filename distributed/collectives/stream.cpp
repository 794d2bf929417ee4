#include "distributed/collectives/stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>

namespace troupe {
namespace {

// One advance() sends at most about this before others have their turn: what a socket's buffer
// takes, so that one that drains as fast as it is filled holds nobody up. After each write of
// 64 KiB, sums took up to 1.5 times as long. Source: docs/algorithms.md, "Why it is done so".
constexpr std::size_t kMaxTurnBytes = std::size_t{1024} * 1024;

[[noreturn]] void throw_broken(const Link& link, int error) {
  throw LinkBroken{link.peer(), error == 0 ? std::string("connection closed")
                                           : std::generic_category().message(error)};
}

}  // namespace

void SendStream::begin(Link& link, const FrameHeader& header) {
  link_ = &link;
  head_ = encode_frame(header);
  header_sent_ = 0;
  ready_.clear();
  first_ = 0;
  left_ = header.payload_bytes;
  unappended_ = header.payload_bytes;
}

void SendStream::append(Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  unappended_ -= bytes.size();
  if (first_ == ready_.size()) {
    ready_.clear();
    first_ = 0;
  }
  if (!ready_.empty() && ready_.back().end() == bytes.begin()) {
    ready_.back() = {ready_.back().data(), ready_.back().size() + bytes.size()};
  } else {
    ready_.push_back(bytes);
  }
}

bool SendStream::advance(Tail tail) {
  bool moved = false;
  std::size_t sent = 0;
  while (has_bytes() && sent < kMaxTurnBytes) {
    // Header and first piece, or two pieces: what one write takes.
    const bool heading = header_sent_ < head_.size();
    Span<const std::byte> one(head_.data() + header_sent_, head_.size() - header_sent_);
    Span<const std::byte> two;
    std::size_t next = first_;
    if (!heading) one = ready_[next++];
    const std::size_t most = link_->write_bytes();
    one = one.subspan(0, std::min(most, one.size()));
    if (next < ready_.size()) {
      two = ready_[next].subspan(0, std::min(most - one.size(), ready_[next].size()));
    }
    // More of this message will follow: wait for a whole write's worth.
    const bool short_write = one.size() + two.size() < most && next + 1 >= ready_.size();
    if (short_write && unappended_ > 0 && tail == Tail::hold) return moved;
    const IoResult result = link_->write_some(one, two);
    if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
    if (result.state == IoResult::State::would_block) return moved;
    moved = true;
    sent += result.bytes;
    const std::size_t of_head = heading ? std::min(result.bytes, one.size()) : 0;
    header_sent_ += of_head;
    drop(result.bytes - of_head);
  }
  return moved;
}

void SendStream::drop(std::size_t bytes) {
  left_ -= bytes;
  while (bytes > 0) {
    Span<const std::byte>& front = ready_[first_];
    const std::size_t of_front = std::min(bytes, front.size());
    front = front.subspan(of_front, front.size() - of_front);
    bytes -= of_front;
    if (front.empty()) ++first_;
  }
}

void ReceiveStream::begin(Link& link, const FrameHeader& expected) {
  link_ = &link;
  expected_ = expected;
  header_read_ = 0;
  pieces_.clear();
  at_ = 0;
  forward_to_.clear();
}

void ReceiveStream::expect(Span<std::byte> into, Forward forward) {
  if (!into.empty()) pieces_.push_back({into.data(), into.size(), nullptr, forward, 0});
}

void ReceiveStream::expect(std::uint64_t bytes, Sink& sink) {
  if (bytes > 0) pieces_.push_back({nullptr, bytes, &sink, Forward::no, 0});
}

Span<std::byte> ReceiveStream::room() const {
  if (at_ == pieces_.size()) return {};
  const Piece& piece = pieces_[at_];
  const std::uint64_t left = piece.bytes - piece.done;
  if (piece.sink != nullptr) {
    const Span<std::byte> room = piece.sink->room();
    return room.subspan(0, static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), left)));
  }
  return {piece.into + piece.done,
          static_cast<std::size_t>(std::min<std::uint64_t>(left, kMaxReadBytes))};
}

bool ReceiveStream::has_room() const { return header_read_ < head_.size() || !room().empty(); }

bool ReceiveStream::advance() {
  if (done()) return false;
  if (header_read_ < head_.size()) return advance_head();
  const Span<std::byte> body = room();
  if (body.empty()) return false;
  const IoResult result = link_->read_some(body, {});
  if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
  if (result.state == IoResult::State::would_block) return false;
  take(result.bytes);
  return true;
}

bool ReceiveStream::advance_head() {
  const Span<std::byte> head(head_.data() + header_read_, head_.size() - header_read_);
  const Span<std::byte> body = room();
  const IoResult result =
      link_->read_some(head, {early_.data(), std::min(body.size(), early_.size())});
  if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
  if (result.state == IoResult::State::would_block) return false;
  const std::size_t of_head = std::min(result.bytes, head.size());
  header_read_ += of_head;
  if (header_read_ < head_.size()) return true;
  check_header();
  const std::size_t early = result.bytes - of_head;
  if (early > 0) {
    std::memcpy(body.data(), early_.data(), early);
    take(early);
  }
  return true;
}

void ReceiveStream::check_header() {
  FrameHeader theirs;
  const FrameFault fault = decode_frame({head_.data(), head_.size()}, theirs);
  if (fault != FrameFault::none || theirs.type != FrameType::data ||
      theirs.rank != static_cast<std::uint32_t>(link_->peer()) ||
      theirs.generation != expected_.generation) {
    throw LinkBroken{link_->peer(),
                     std::string("a message's header was refused: ") + describe(fault)};
  }
  const bool same = theirs.operation == expected_.operation &&
                    theirs.sequence == expected_.sequence && theirs.dtype == expected_.dtype &&
                    theirs.total_bytes == expected_.total_bytes && theirs.root == expected_.root &&
                    theirs.label == expected_.label &&
                    theirs.payload_bytes == expected_.payload_bytes;
  if (!same) throw Mismatch{link_->peer(), theirs};
}

void ReceiveStream::take(std::size_t bytes) {
  Piece& piece = pieces_[at_];
  piece.done += bytes;
  if (piece.done == piece.bytes) ++at_;
  if (piece.sink != nullptr) return piece.sink->take(bytes);
  if (piece.forward == Forward::no) return;
  for (SendStream* to : forward_to_) to->append({piece.into + piece.done - bytes, bytes});
}

}  // namespace troupe
