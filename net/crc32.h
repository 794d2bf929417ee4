// CRC-32 (ISO-HDLC, as in zlib and IEEE 802.3).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/span.h"

namespace troupe {

[[nodiscard]] std::uint32_t crc32_of(Span<const std::byte> bytes);

}  // namespace troupe
