// QuickDigest: 128 bits that tell bytes apart at the speed of memory. It finds damage, not
// forgery: against whoever chooses the bytes there is core/sha256.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/span.h"

namespace troupe {

struct QuickDigest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  [[nodiscard]] bool operator==(const QuickDigest& other) const {
    return first == other.first && second == other.second;
  }
  [[nodiscard]] bool operator!=(const QuickDigest& other) const { return !(*this == other); }
};

/// Bytes of the same length that differ within one aligned word of 8 always have different digests;
/// others have equal ones by chance, one pair in 2^64 or fewer. The same on machines of one byte
/// order; no format to keep in files.
[[nodiscard]] QuickDigest quick_digest(Span<const std::byte> bytes);

}  // namespace troupe
