#include "troupe/data/gather_rows.h"

#include <algorithm>
#include <cstring>

namespace troupe::detail {
namespace {

constexpr std::size_t kRowsAhead = 2;
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMostAhead = 4096;  // of a row; the rest of a long one the processor foresees

/// Asks for the row that is to be copied after the next one.
template <class T>
void ask_for_row(const T* from, std::size_t row_bytes, Span<const std::int64_t> rows,
                 std::size_t now) {
  if (now + kRowsAhead >= rows.size()) return;
  const auto row = static_cast<std::size_t>(rows[now + kRowsAhead]);
  const auto* const begin = reinterpret_cast<const char*>(from) + row * row_bytes;
  for (std::size_t at = 0; at < std::min(row_bytes, kMostAhead); at += kCacheLine) {
    __builtin_prefetch(begin + at);
  }
}

}  // namespace

void copy_rows(const std::byte* from, std::size_t row_bytes, Span<const std::int64_t> rows,
               std::byte* to) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ask_for_row(from, row_bytes, rows, i);
    std::memcpy(to + i * row_bytes, from + static_cast<std::size_t>(rows[i]) * row_bytes,
                row_bytes);
  }
}

void scale_rows(const std::uint8_t* from, std::size_t row_length, Span<const std::int64_t> rows,
                ByteScale scale, float* to) {
  const auto factor = static_cast<float>(scale.factor);
  const auto shift = static_cast<float>(scale.shift);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ask_for_row(from, row_length, rows, i);
    const std::uint8_t* const row = from + static_cast<std::size_t>(rows[i]) * row_length;
    float* const out = to + i * row_length;
    for (std::size_t at = 0; at < row_length; ++at) {
      out[at] = static_cast<float>(row[at]) * factor - shift;
    }
  }
}

}  // namespace troupe::detail
