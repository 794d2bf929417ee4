#include "distributed/stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>

namespace troupe {
namespace {

// One read takes at most this, so that the bytes are still in the level-2 cache when they are
// added. Source: docs/performance.md.
constexpr std::size_t kMaxReadBytes = std::size_t{256} * 1024;

[[noreturn]] void throw_broken(const Link& link, int error) {
  throw LinkBroken{link.peer(), error == 0 ? std::string("connection closed")
                                           : std::generic_category().message(error)};
}

}  // namespace

Adder adder_of(const Reduction& sum) {
  return {sum.element_bytes, [sum](std::byte* into, const std::byte* from, std::size_t count) {
            add_to(into, from, count, sum);
          }};
}

SendStream::SendStream(Link& link, const FrameHeader& header)
    : link_(&link),
      head_(encode_frame(header)),
      left_(header.payload_bytes),
      unappended_(header.payload_bytes) {}

void SendStream::append(Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  unappended_ -= bytes.size();
  if (!ready_.empty() && ready_.back().end() == bytes.begin()) {
    ready_.back() = {ready_.back().data(), ready_.back().size() + bytes.size()};
  } else {
    ready_.push_back(bytes);
  }
}

bool SendStream::has_bytes() const { return header_sent_ < head_.size() || !ready_.empty(); }

bool SendStream::advance(Tail tail) {
  bool moved = false;
  while (has_bytes()) {
    const Span<const std::byte> head(head_.data() + header_sent_, head_.size() - header_sent_);
    const std::size_t room = link_->write_bytes() - head.size();
    Span<const std::byte> body;
    if (!ready_.empty()) body = ready_.front().subspan(0, std::min(room, ready_.front().size()));
    // More of this message will follow: wait for a whole write's worth.
    const bool incomplete = body.size() < room && unappended_ > 0 && ready_.size() <= 1;
    if (incomplete && tail == Tail::hold) return moved;
    const IoResult result = link_->write_some(head, body);
    if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
    if (result.state == IoResult::State::would_block) return moved;
    moved = true;
    const std::size_t of_head = std::min(result.bytes, head.size());
    const std::size_t of_body = result.bytes - of_head;
    header_sent_ += of_head;
    left_ -= of_body;
    if (of_body == 0) continue;
    Span<const std::byte>& front = ready_.front();
    front = front.subspan(of_body, front.size() - of_body);
    if (front.empty()) ready_.pop_front();
    // Let the receiving side run: it makes the bytes that the next write needs.
    return true;
  }
  return moved;
}

ReceiveStream::ReceiveStream(Link& link, const FrameHeader& expected, Span<std::byte> scratch)
    : link_(&link), expected_(expected), scratch_(scratch) {}

void ReceiveStream::expect(Span<std::byte> into, const Adder* sum, Forward forward) {
  if (!into.empty()) pieces_.push_back({into, sum, forward, 0});
}

bool ReceiveStream::advance() {
  if (done()) return false;
  Span<std::byte> target;
  if (at_ < pieces_.size()) {
    const Piece& piece = pieces_[at_];
    const std::size_t left = piece.into.size() - piece.done;
    if (piece.sum == nullptr) {
      target = piece.into.subspan(piece.done, std::min(left, kMaxReadBytes));
    } else {
      const std::size_t room = std::min(scratch_.size(), left) - carried_;
      target = scratch_.subspan(carried_, room);
    }
  }
  const Span<std::byte> head(head_.data() + header_read_, head_.size() - header_read_);
  const IoResult result = link_->read_some(head, target);
  if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
  if (result.state == IoResult::State::would_block) return false;
  const std::size_t of_head = std::min(result.bytes, head.size());
  header_read_ += of_head;
  if (of_head > 0 && header_read_ == head_.size()) check_header();
  if (result.bytes > of_head) absorb(result.bytes - of_head);
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

void ReceiveStream::absorb(std::size_t bytes) {
  Piece& piece = pieces_[at_];
  std::size_t final_bytes = bytes;
  std::byte* const into = piece.into.data() + piece.done;
  if (piece.sum != nullptr) {
    const std::size_t have = carried_ + bytes;
    final_bytes = have / piece.sum->element_bytes * piece.sum->element_bytes;
    piece.sum->add(into, scratch_.data(), final_bytes / piece.sum->element_bytes);
    carried_ = have - final_bytes;
    if (carried_ > 0) std::memmove(scratch_.data(), scratch_.data() + final_bytes, carried_);
  }
  piece.done += final_bytes;
  if (piece.forward == Forward::yes) {
    for (SendStream* to : forward_to_) to->append({into, final_bytes});
  }
  if (piece.done == piece.into.size()) ++at_;
}

}  // namespace troupe
