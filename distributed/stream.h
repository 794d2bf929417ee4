// Streams: one message of a collective on its way out or in.
//
// A message is a frame header and then pieces of memory in an order that both ends derive from
// world size and length. Sending and receiving make progress together: advance() moves what the
// socket takes and never waits. Thread rule: the thread that calls the collective.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/span.h"
#include "distributed/reduction.h"
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

/// Whether a write may end inside a TCP segment: only when nothing else can be done (see
/// Link::write_bytes).
enum class Tail { hold, flush };
/// How bytes that arrive are added to what is there.
struct Adder {
  std::size_t element_bytes = 1;
  /// into[i] += from[i] for `count` elements; both aligned to the element, not overlapping.
  std::function<void(std::byte* into, const std::byte* from, std::size_t count)> add;
};
[[nodiscard]] Adder adder_of(const Reduction& sum);

/// Whether received bytes are sent on.
enum class Forward { no, yes };

class SendStream {
 public:
  /// `header.payload_bytes` is what append() will have added in the end.
  SendStream(Link& link, const FrameHeader& header);

  /// Adds bytes that are ready to go; they must stay unchanged until they are sent.
  void append(Span<const std::byte> bytes);
  /// Moves bytes to the socket; true when some went.  Throws: LinkBroken.
  bool advance(Tail tail);
  [[nodiscard]] bool done() const { return header_sent_ == head_.size() && left_ == 0; }
  /// True when only the socket keeps it from going on.
  [[nodiscard]] bool has_bytes() const;
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  Link* link_;
  std::array<std::byte, kFrameHeaderBytes> head_;
  std::size_t header_sent_ = 0;
  std::deque<Span<const std::byte>> ready_;
  std::uint64_t left_;        // payload bytes not yet sent
  std::uint64_t unappended_;  // of those, not yet append()ed
};

class ReceiveStream {
 public:
  /// `expected` is compared with what arrives; `scratch` holds bytes that are to be added.
  ReceiveStream(Link& link, const FrameHeader& expected, Span<std::byte> scratch);

  /// The next bytes of the message go to `into`; with `sum` they are added to it.
  void expect(Span<std::byte> into, const Adder* sum, Forward forward);
  /// `to` gets every piece expected with Forward::yes, as its bytes become final.
  void forward_to(SendStream& to) { forward_to_.push_back(&to); }
  /// Moves bytes from the socket; true when some came.  Throws: Mismatch, LinkBroken.
  bool advance();
  [[nodiscard]] bool done() const { return header_read_ == head_.size() && at_ == pieces_.size(); }
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  struct Piece {
    Span<std::byte> into;
    const Adder* sum;
    Forward forward;
    std::size_t done;
  };
  void check_header();
  void absorb(std::size_t bytes);

  Link* link_;
  FrameHeader expected_;
  Span<std::byte> scratch_;
  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::size_t header_read_ = 0;
  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  std::size_t carried_ = 0;  // bytes of an incomplete element at the front of scratch
  std::vector<SendStream*> forward_to_;
};

}  // namespace troupe
