// Little-endian numbers as bytes of a file, whatever the machine's own order is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/check.h"

namespace troupe {

/// Appends the bytes of an unsigned `value`, lowest first.
template <class Unsigned>
void append_little_endian(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

/// The inverse; `bytes` has exactly the length of an Unsigned.
template <class Unsigned>
[[nodiscard]] Unsigned from_little_endian(std::string_view bytes) {
  TROUPE_CHECK_EQ(bytes.size(), sizeof(Unsigned));
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace troupe
