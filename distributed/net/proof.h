// Proof: the two ends of an unencrypted connection prove to each other that they hold the job's
// secret, in three messages of fixed size (byte tables: docs/wire.md), before anything else.
//
//   opening    client: what the connection is for, who connects to whom, a nonce
//   challenge  server: a nonce of its own, and its code over all of that
//   proof      client: its code over all of that; sent only if the server's was right
//
// The codes are HMAC-SHA256 with a key derived from the secret, over everything said so far and a
// word for the direction: what was said on one connection is worth nothing on another, nor on its
// own way back. A message in another version of the protocol is answered with a fixed one that says
// so, everything else that is wrong with nothing.
//
// Bytes in, bytes out: no sockets, no time. Everything that comes in is hostile.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "troupe/core/secret.h"
#include "troupe/core/span.h"
#include "troupe/distributed/net/credentials.h"

namespace troupe {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofPrefixBytes = 8;
inline constexpr std::size_t kOpeningBytes =
    kProofPrefixBytes + 8 + 2 * kMaxTaskBytes + kNonceBytes;
inline constexpr std::size_t kChallengeBytes = kProofPrefixBytes + kNonceBytes + sizeof(Key);
inline constexpr std::size_t kClosingProofBytes = kProofPrefixBytes + sizeof(Key);
/// As long as a frame's header: that is what processes of version 1 and 2 read.
inline constexpr std::size_t kVersionNoteBytes = 64;

class Proof {
 public:
  enum class State { going, proven, refused };

  /// The end that connects. Names of tasks have 1 to kMaxTaskBytes bytes.
  Proof(const Secret& secret, const Identity& identity);
  /// The end that answers whoever connects to `task`.
  Proof(const Secret& secret, const std::string& task);

  [[nodiscard]] State state() const { return state_; }
  /// How many bytes the other end has to send before take(); 0 unless going.
  [[nodiscard]] std::size_t awaited() const { return state_ == State::going ? awaited_ : 0; }
  /// Exactly awaited() bytes.
  void take(Span<const std::byte> bytes);
  /// What is to be sent now, in every state; once.
  [[nodiscard]] std::vector<std::byte> give();
  /// Whether a well-formed opening has come.
  [[nodiscard]] bool has_opened() const { return next_ == &Proof::take_proof; }
  /// The connection; of the end that answers, proven once the state is.
  [[nodiscard]] const Identity& identity() const { return identity_; }
  /// Of the end that connects, refused: what is wrong with the other.
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  using Take = void (Proof::*)(Span<const std::byte> bytes);

  void await(std::size_t bytes, Take next);
  void take_prefix(Span<const std::byte> bytes);
  void take_opening(Span<const std::byte> bytes);
  void take_challenge(Span<const std::byte> bytes);
  void take_proof(Span<const std::byte> bytes);
  void refuse(const std::string& why);
  void say(Span<const std::byte> bytes);
  [[nodiscard]] Key code(const char* direction) const;

  const Key key_;
  Identity identity_;
  std::size_t awaited_ = kProofPrefixBytes;
  Take next_ = &Proof::take_prefix;  // those bytes
  State state_ = State::going;
  std::string why_;
  std::vector<std::byte> said_;  // by both, in order
  std::vector<std::byte> out_;
};

}  // namespace troupe
