#include "troupe/distributed/collectives/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe {
namespace {

// One advance() sends at most about this before others have their turn: what a socket's buffer
// takes, so that one that drains as fast as it is filled holds nobody up. After each write of
// 64 KiB, sums took up to 1.5 times as long. Source: docs/algorithms.md, "Why it is done so".
constexpr std::size_t kMaxTurnBytes = std::size_t{1024} * 1024;

[[noreturn]] void throw_broken(const Link& link, int error) {
  if (error == EBADMSG) throw LinkDamaged{link.peer(), link.local_address()};  // TLS found it
  throw LinkBroken{link.peer(), why_closed(error)};
}

std::array<std::byte, kSealBytes> seal_of(std::uint32_t checksum) {
  std::array<std::byte, kSealBytes> seal;
  for (std::size_t i = 0; i < seal.size(); ++i)
    seal[i] = static_cast<std::byte>(checksum >> (8 * i));
  return seal;
}

}  // namespace

void SendStream::begin(Link& link, const FrameHeader& header) {
  link_ = &link;
  head_ = encode_frame(header);
  ready_.assign(1, {{head_.data(), head_.size()}, Piece::Kind::header});
  first_ = 0;
  unappended_ = header.payload_bytes;
  unsealed_ = 0;
  seals_.clear();
  known_seals_ = 0;
  covered_ = 0;
  (void)checksum_.take();
}

void SendStream::append(Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  unappended_ -= bytes.size();
  unsealed_ += bytes.size();
  if (first_ == ready_.size()) {
    ready_.clear();
    first_ = 0;
  }
  if (!ready_.empty() && ready_.back().kind == Piece::Kind::payload &&
      ready_.back().bytes.end() == bytes.begin()) {
    ready_.back().bytes = {ready_.back().bytes.data(), ready_.back().bytes.size() + bytes.size()};
  } else {
    ready_.push_back({bytes, Piece::Kind::payload});
  }
}

void SendStream::seal() {
  if (unsealed_ == 0) return;
  unsealed_ = 0;
  const auto& seal = seals_.emplace_back();  // cover() fills it in
  ready_.push_back({{seal.data(), seal.size()}, Piece::Kind::seal});
}

bool SendStream::advance(Tail tail) {
  bool moved = false;
  std::size_t sent = 0;
  while (has_bytes() && sent < kMaxTurnBytes) {
    // Header, bytes and seal: one write takes a small message.
    std::array<Span<const std::byte>, 3> parts;
    const std::size_t most = link_->write_bytes();
    std::size_t bytes = 0;
    std::size_t next = first_;
    for (auto part = parts.begin(); part != parts.end() && next < ready_.size() && bytes < most;
         ++part, ++next) {
      const Piece& piece = ready_[next];
      const bool may_be_cut = piece.kind == Piece::Kind::payload;
      *part = may_be_cut ? piece.bytes.subspan(0, std::min(most - bytes, piece.bytes.size()))
                         : piece.bytes;
      bytes += part->size();
    }
    // More of this message will follow: wait for a whole write's worth.
    const bool is_short = bytes < most && next == ready_.size();
    if (is_short && !is_complete() && tail == Tail::hold) return moved;
    cover(bytes);
    const IoResult result = link_->write_some(parts[0], parts[1], parts[2]);
    if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
    if (result.state == IoResult::State::would_block) return moved;
    moved = true;
    sent += result.bytes;
    drop(result.bytes);
  }
  return moved;
}

// Just before they are written, so that the write finds them in the cache, and a seal is known when
// its turn comes. What the socket did not take has been seen already.
void SendStream::cover(std::size_t bytes) {
  const bool sums = link_->needs_checksum();
  std::size_t from = covered_;
  for (std::size_t at = first_, left = bytes; left > 0; ++at) {
    const Piece& piece = ready_[at];
    const std::size_t here = std::min(left, piece.bytes.size());
    left -= here;
    const std::size_t seen = std::min(from, here);
    from -= seen;
    if (seen == here || piece.kind == Piece::Kind::header) continue;
    if (piece.kind == Piece::Kind::seal) {
      seals_[known_seals_++] = seal_of(checksum_.take());
    } else if (sums) {
      checksum_.add(piece.bytes.subspan(seen, here - seen));
    }
  }
  covered_ = std::max(covered_, bytes);
}

void SendStream::drop(std::size_t bytes) {
  covered_ -= bytes;
  while (bytes > 0) {
    Span<const std::byte>& front = ready_[first_].bytes;
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
  (void)checksum_.take();
}

void ReceiveStream::expect(Span<std::byte> into, Forward forward) {
  if (into.empty()) return;
  pieces_.push_back({Piece::Kind::stored, into.data(), into.size(), nullptr, forward, nullptr, 0});
}

void ReceiveStream::expect(std::uint64_t bytes, Sink& sink) {
  if (bytes == 0) return;
  pieces_.push_back({Piece::Kind::sunk, nullptr, bytes, &sink, Forward::no, nullptr, 0});
}

void ReceiveStream::expect_seal(std::function<void()> on_sealed) {
  if (pieces_.empty() || pieces_.back().kind == Piece::Kind::seal) return;
  pieces_.push_back(
      {Piece::Kind::seal, seal_.data(), kSealBytes, nullptr, Forward::no, std::move(on_sealed), 0});
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

// Room for the seal where it comes right after what `room` takes, so that one read takes both.
Span<std::byte> ReceiveStream::seal_after(Span<std::byte> room) const {
  if (at_ + 1 >= pieces_.size() || pieces_[at_ + 1].kind != Piece::Kind::seal) return {};
  const Piece& piece = pieces_[at_];
  const bool is_rest = piece.bytes - piece.done == room.size();
  return is_rest ? Span<std::byte>(pieces_[at_ + 1].into, kSealBytes) : Span<std::byte>();
}

bool ReceiveStream::advance() {
  if (done()) return false;
  if (header_read_ < head_.size()) return advance_head();
  const Span<std::byte> body = room();
  if (body.empty()) return false;
  const IoResult result = link_->read_some(body, seal_after(body));
  if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
  if (result.state == IoResult::State::would_block) return false;
  take(result.bytes);
  return true;
}

bool ReceiveStream::advance_head() {
  const Span<std::byte> head(head_.data() + header_read_, head_.size() - header_read_);
  const Span<std::byte> body = room();
  const std::size_t most = body.size() + seal_after(body).size();
  const IoResult result = link_->read_some(head, {early_.data(), std::min(most, early_.size())});
  if (result.state == IoResult::State::closed) throw_broken(*link_, result.error);
  if (result.state == IoResult::State::would_block) return false;
  const std::size_t of_head = std::min(result.bytes, head.size());
  header_read_ += of_head;
  if (header_read_ < head_.size()) return true;
  check_header();
  const std::size_t early = result.bytes - of_head;
  const std::size_t of_body = std::min(early, body.size());
  if (early > of_body) std::memcpy(seal_.data(), early_.data() + of_body, early - of_body);
  if (early > 0) {
    std::memcpy(body.data(), early_.data(), of_body);
    take(early);
  }
  return true;
}

void ReceiveStream::check_header() {
  FrameHeader theirs;
  const FrameFault fault = decode_frame({head_.data(), head_.size()}, theirs);
  if (is_damage(fault)) throw LinkDamaged{link_->peer(), link_->local_address()};
  if (fault != FrameFault::none || theirs.type != FrameType::data ||
      theirs.rank != static_cast<std::uint32_t>(link_->peer()) ||
      theirs.generation != expected_.generation) {
    throw LinkBroken{link_->peer(),
                     fault == FrameFault::none
                         ? std::string("a message came that is not of this group")
                         : std::string("a message's header was refused: ") + describe(fault)};
  }
  const bool same = theirs.operation == expected_.operation &&
                    theirs.sequence == expected_.sequence && theirs.dtype == expected_.dtype &&
                    theirs.total_bytes == expected_.total_bytes && theirs.root == expected_.root &&
                    theirs.label == expected_.label &&
                    theirs.payload_bytes == expected_.payload_bytes;
  if (!same) throw Mismatch{link_->peer(), theirs};
}

// The next `bytes` are where room() and seal_after() have said.
void ReceiveStream::take(std::size_t bytes) {
  while (bytes > 0) {
    const Span<std::byte> here = room();
    const std::size_t count = std::min(bytes, here.size());
    Piece& piece = pieces_[at_];
    bytes -= count;
    piece.done += count;
    const bool is_whole = piece.done == piece.bytes;
    if (is_whole) ++at_;
    if (piece.kind != Piece::Kind::seal) {
      take_payload(piece, here.subspan(0, count));
    } else if (is_whole) {
      check_seal();
      if (piece.on_sealed) piece.on_sealed();
    }
  }
}

// The checksum first: what has just been read is in the cache, and sinks move it.
void ReceiveStream::take_payload(const Piece& piece, Span<std::byte> bytes) {
  if (link_->needs_checksum()) checksum_.add(bytes);
  if (piece.sink != nullptr) return piece.sink->take(bytes.size());
  if (piece.forward == Forward::no) return;
  for (SendStream* to : forward_to_) to->append(bytes);
}

void ReceiveStream::check_seal() {
  if (seal_ != seal_of(checksum_.take())) throw LinkDamaged{link_->peer(), link_->local_address()};
}

}  // namespace troupe
