// Streams: one message of a collective on its way out or in.
//
// A message is a frame header and then pieces of memory in an order that both ends derive from
// world size and length. Sending and receiving make progress together: advance() moves what the
// socket takes and never waits. A stream is used again for the next message to or from its peer and
// keeps its memory, so small messages allocate nothing. Thread rule: the thread that calls the
// collective.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/span.h"
#include "net/frame.h"
#include "net/link.h"

namespace troupe {

/// The peer is in another collective than we are; `theirs` is what its header says.
struct Mismatch {
  int peer;
  FrameHeader theirs;
};
/// The link broke or carried something that is no message.
struct LinkBroken {
  int peer;
  std::string what;
};

/// One read takes at most this, so that the bytes are still in the level-2 cache when they are
/// added. Source: docs/performance.md.
inline constexpr std::size_t kMaxReadBytes = std::size_t{256} * 1024;
/// So much of a message is read together with its header, and kept apart until the header has been
/// checked: short messages cost one call, and what is refused has overwritten nothing.
inline constexpr std::size_t kEarlyBytes = 4096;

/// Whether a write may end inside a TCP segment: only when nothing else can be done (see
/// Link::write_bytes).
enum class Tail { hold, flush };
/// Whether received bytes are sent on.
enum class Forward { no, yes };

class SendStream {
 public:
  /// The next message; `header.payload_bytes` is what append() will have added in the end.
  void begin(Link& link, const FrameHeader& header);
  /// Adds bytes that are ready to go; they must stay unchanged until they are sent.
  void append(Span<const std::byte> bytes);
  /// Moves bytes to the socket; true when some went.  Throws: LinkBroken.
  bool advance(Tail tail);
  [[nodiscard]] bool done() const { return header_sent_ == head_.size() && left_ == 0; }
  /// True when only the socket keeps it from going on.
  [[nodiscard]] bool has_bytes() const {
    return header_sent_ < head_.size() || first_ < ready_.size();
  }
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  void drop(std::size_t bytes);

  Link* link_ = nullptr;
  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::size_t header_sent_ = 0;
  std::vector<Span<const std::byte>> ready_;
  std::size_t first_ = 0;         // in ready_
  std::uint64_t left_ = 0;        // payload bytes not yet sent
  std::uint64_t unappended_ = 0;  // of those, not yet append()ed
};

/// Takes the bytes of a piece that are not simply stored.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Where the next bytes go; empty: nowhere at present.
  [[nodiscard]] virtual Span<std::byte> room() = 0;
  /// `bytes` have come to the room that was given last.
  virtual void take(std::size_t bytes) = 0;
};

class ReceiveStream {
 public:
  /// The next message; `expected` is compared with what arrives.
  void begin(Link& link, const FrameHeader& expected);
  /// The next bytes of the message are stored in `into`.
  void expect(Span<std::byte> into, Forward forward = Forward::no);
  /// The next `bytes` bytes of the message go to `sink`.
  void expect(std::uint64_t bytes, Sink& sink);
  /// `to` gets every piece expected with Forward::yes, as its bytes come.
  void forward_to(SendStream& to) { forward_to_.push_back(&to); }
  /// Moves bytes from the socket; true when some came.  Throws: Mismatch, LinkBroken.
  bool advance();
  /// Whether anything of it has come.
  [[nodiscard]] bool begun() const { return header_read_ > 0; }
  [[nodiscard]] bool done() const { return header_read_ == head_.size() && at_ == pieces_.size(); }
  /// False when what comes could not be taken at present.
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  struct Piece {
    std::byte* into;
    std::uint64_t bytes;
    Sink* sink;
    Forward forward;
    std::uint64_t done;
  };
  [[nodiscard]] Span<std::byte> room() const;
  bool advance_head();
  void check_header();
  void take(std::size_t bytes);

  Link* link_ = nullptr;
  FrameHeader expected_;
  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::size_t header_read_ = 0;
  std::array<std::byte, kEarlyBytes> early_;
  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  std::vector<SendStream*> forward_to_;
};

/// Bytes of a message that are added to values of this rank as they come.
class AddingSink final : public Sink {
 public:
  /// into[i] += from[i] for `count` elements; both aligned to the element, not overlapping.
  using Add = std::function<void(std::byte* into, const std::byte* from, std::size_t count)>;

  /// Arriving bytes wait in `scratch`, which sinks of one message may share. `add` outlives this.
  /// With `to`, sums are sent on.
  AddingSink(Span<std::byte> into, std::size_t element_bytes, Span<std::byte> scratch,
             const Add& add, SendStream* to = nullptr)
      : into_(into), element_bytes_(element_bytes), scratch_(scratch), add_(&add), to_(to) {}

  [[nodiscard]] Span<std::byte> room() override {
    const std::size_t room = std::min(scratch_.size(), into_.size() - done_) - carried_;
    return scratch_.subspan(carried_, room);
  }
  void take(std::size_t bytes) override {
    const std::size_t have = carried_ + bytes;
    const std::size_t whole = have / element_bytes_ * element_bytes_;
    (*add_)(into_.data() + done_, scratch_.data(), whole / element_bytes_);
    carried_ = have - whole;
    if (carried_ > 0) std::memmove(scratch_.data(), scratch_.data() + whole, carried_);
    if (to_ != nullptr) to_->append(into_.subspan(done_, whole));
    done_ += whole;
  }

 private:
  Span<std::byte> into_;
  std::size_t element_bytes_;
  Span<std::byte> scratch_;
  const Add* add_;
  SendStream* to_;
  std::size_t done_ = 0;     // bytes of into_ that are sums
  std::size_t carried_ = 0;  // bytes of an incomplete element at the front of scratch_
};

}  // namespace troupe
