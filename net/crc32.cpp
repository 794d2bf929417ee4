#include "net/crc32.h"

#include <array>

namespace troupe {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320U;  // of the standard, bits reversed
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// [s][b]: what a byte b changes once s more bytes have gone through.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ ((remainder & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = remainder;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32_of(Span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < kSlices; ++i) {
      const auto mixed = std::to_integer<std::uint32_t>(at[i]) ^ (i < 4 ? crc >> (8 * i) : 0U);
      next ^= kTables[kSlices - 1 - i][mixed & 0xFFU];
    }
    crc = next;
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xFFU];
  }
  return ~crc;
}

}  // namespace troupe
