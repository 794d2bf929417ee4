// Secret: the bytes that the processes of a job share and nobody else has. Keys are derived from
// it, so that none that is used tells anything of it or of another.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "troupe/core/span.h"

namespace troupe {

/// A symmetric key of 256 bits.
using Key = std::array<std::byte, 32>;

class Secret {
 public:
  /// Shorter ones could be guessed by whoever has seen a proof of them.
  static constexpr std::size_t kMinBytes = 32;
  static constexpr std::size_t kMaxBytes = 4096;

  /// Throws: ConfigError for less than kMinBytes or more than kMaxBytes.
  explicit Secret(std::vector<std::byte> bytes);
  /// Overwrites the bytes.
  ~Secret();
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  /// The key for one use, named by `info`: HKDF-SHA256 (RFC 5869) without salt.
  [[nodiscard]] Key derive(std::string_view info) const;
  [[nodiscard]] Span<const std::byte> bytes() const { return Span<const std::byte>(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// From the system's generator.  Throws: EnvironmentError when it has none to give.
void fill_random(Span<std::byte> bytes);
/// HMAC-SHA256 (RFC 2104).
[[nodiscard]] Key hmac_sha256(const Key& key, Span<const std::byte> message);
/// Compares in a time that tells nothing of where they differ.
[[nodiscard]] bool same_bytes(Span<const std::byte> one, Span<const std::byte> other);

}  // namespace troupe
