// XXH3 (libxxhash): checksums and fingerprints of bytes that nothing else guards. They find damage,
// not forgery: whoever means to change bytes changes the checksum, too; against that there is
// core/sha256.h. The same on every machine.
// Source: Collet, xxHash; https://github.com/Cyan4973/xxHash
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "troupe/core/span.h"
#include "troupe/core/xxh3/xxh3.h"

namespace troupe {

/// 64 bits of all of `bytes`; another `seed`, another result.  Thread: any.
[[nodiscard]] std::uint64_t hash_of(Span<const std::byte> bytes, std::uint64_t seed = 0);

/// The lower 32 bits of hash_of(bytes); 0 of no bytes.  Thread: any.
[[nodiscard]] std::uint32_t checksum_of(Span<const std::byte> bytes);

/// checksum_of() bytes that come in parts.
class Checksum {
 public:
  void add(Span<const std::byte> bytes);
  /// Of all that was added since the last call; 0 if nothing was.
  [[nodiscard]] std::uint32_t take();

 private:
  struct State {
    alignas(detail::kXxh3StateAlignment) std::byte of_library[detail::kXxh3StateBytes];
  };
  std::unique_ptr<State> state_;  // made by the first add()
  bool empty_ = true;
};

/// 128 bits: different bytes have equal ones by chance alone, one pair in 2^128.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  [[nodiscard]] bool operator==(const Fingerprint& other) const {
    return low == other.low && high == other.high;
  }
  [[nodiscard]] bool operator!=(const Fingerprint& other) const { return !(*this == other); }
};
[[nodiscard]] Fingerprint fingerprint_of(Span<const std::byte> bytes);

}  // namespace troupe
