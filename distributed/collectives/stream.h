// Streams: one message of a collective on its way out or in.
//
// A message is a frame header and then pieces of memory in an order that both ends derive from
// world size and length. Sending and receiving make progress together: advance() moves what the
// socket takes and never waits. A stream is used again for the next message to or from its peer and
// keeps its memory, so small messages allocate nothing. Thread rule: the thread that calls the
// collective.
//
// A *seal* says that the bytes before it, back to the last one, are right: a checksum of them where
// nothing else guards the link, 0 elsewhere. Bytes are added up and sent on before their seal has
// come, so what is wrong may travel; but no rank returns with it, by this rule of all algorithms:
//
//   A rank sends the last seal of what it has made of received bytes only when theirs were right.
//
// run() returns when the last seals of all messages have come. By the rule their senders had
// checked what went into them, and so had those before: back to values that a rank has of itself.
// Links with and without checksums may be mixed, so all have seals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "troupe/core/checksum.h"
#include "troupe/core/span.h"
#include "troupe/distributed/net/frame.h"
#include "troupe/distributed/net/link.h"

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
/// What came is not what the peer has sent.
struct LinkDamaged {
  int peer;
  std::string address;  // of this end
};

inline constexpr std::size_t kSealBytes = 4;

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
  /// Seals what was added since the last seal; a message that is not empty ends with one.
  void seal();
  /// Moves bytes to the socket; true when some went.  Throws: LinkBroken.
  bool advance(Tail tail);
  [[nodiscard]] bool done() const { return is_complete() && !has_bytes(); }
  /// True when only the socket keeps it from going on.
  [[nodiscard]] bool has_bytes() const { return first_ < ready_.size(); }
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  struct Piece {
    enum class Kind { header, payload, seal };
    Span<const std::byte> bytes;
    Kind kind;
  };
  [[nodiscard]] bool is_complete() const { return unappended_ == 0 && unsealed_ == 0; }
  void cover(std::size_t bytes);
  void drop(std::size_t bytes);

  Link* link_ = nullptr;
  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::vector<Piece> ready_;
  std::size_t first_ = 0;                                // in ready_
  std::uint64_t unappended_ = 0;                         // payload bytes not yet append()ed
  std::uint64_t unsealed_ = 0;                           // append()ed since the last seal
  std::deque<std::array<std::byte, kSealBytes>> seals_;  // those in ready_ point to them
  std::size_t known_seals_ = 0;                          // of those, the first, are filled in
  std::size_t covered_ = 0;  // bytes of ready_ that are in checksum_ or are known seals
  Checksum checksum_;        // of covered bytes since the last seal
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
  /// Then comes the seal of all that was expected since the last one; `on_sealed` runs when it was
  /// right. A message that is not empty ends with one.
  void expect_seal(std::function<void()> on_sealed = nullptr);
  /// `to` gets every piece expected with Forward::yes, as its bytes come.
  void forward_to(SendStream& to) { forward_to_.push_back(&to); }
  /// Moves bytes from the socket; true when some came.  Throws: Mismatch, LinkBroken, LinkDamaged.
  bool advance();
  /// Whether anything of it has come.
  [[nodiscard]] bool begun() const { return header_read_ > 0; }
  [[nodiscard]] bool done() const { return header_read_ == head_.size() && at_ == pieces_.size(); }
  /// False when what comes could not be taken at present.
  [[nodiscard]] bool has_room() const { return header_read_ < head_.size() || !room().empty(); }
  [[nodiscard]] Link& link() const { return *link_; }

 private:
  struct Piece {
    enum class Kind { stored, sunk, seal };
    Kind kind;
    std::byte* into;
    std::uint64_t bytes;
    Sink* sink;
    Forward forward;
    std::function<void()> on_sealed;
    std::uint64_t done;
  };
  [[nodiscard]] Span<std::byte> room() const;
  [[nodiscard]] Span<std::byte> seal_after(Span<std::byte> room) const;
  bool advance_head();
  void check_header();
  void take(std::size_t bytes);
  void take_payload(const Piece& piece, Span<std::byte> bytes);
  void check_seal();

  Link* link_ = nullptr;
  FrameHeader expected_;
  std::array<std::byte, kFrameHeaderBytes> head_{};
  std::size_t header_read_ = 0;
  std::array<std::byte, kEarlyBytes + kSealBytes> early_;
  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  std::vector<SendStream*> forward_to_;
  std::array<std::byte, kSealBytes> seal_;
  Checksum checksum_;  // of what has come since the last seal
};

}  // namespace troupe
