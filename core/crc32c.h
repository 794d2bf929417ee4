// CRC-32C: the checksum of what travels between processes with nothing else to guard it. It finds
// damage on the way, not forgery: whoever means to change bytes changes it along with them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/span.h"

namespace troupe {

/// CRC-32C (Castagnoli; RFC 3720, B.4) of all bytes so far: of those whose checksum is `before`,
/// then `bytes`.  Thread: any.
[[nodiscard]] std::uint32_t crc32c(Span<const std::byte> bytes, std::uint32_t before = 0);

/// One way to compute it; all give the same result.
struct Crc32cVersion {
  const char* name;
  std::uint32_t (*compute)(Span<const std::byte> bytes, std::uint32_t before);
};
/// Those that this processor has instructions for, fastest first; the last one needs none.
[[nodiscard]] Span<const Crc32cVersion> crc32c_versions();

}  // namespace troupe
