#include "core/quick_digest.h"

#include <array>
#include <cstring>

namespace troupe {
namespace {

// Each lane waits for its own multiplications alone, so that a core has several under way.
constexpr std::size_t kLanes = 8;
constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);
using Lanes = std::array<std::uint64_t, kLanes>;

// Odd constants with bits in no pattern, from the binary digits of the golden ratio and of pi.
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kOther = 0x243f6a8885a308d3;

constexpr std::uint64_t rotated(std::uint64_t value, int bits) {
  return value << bits | value >> (64 - bits);
}

/// One-to-one; each bit of the result depends on all of `value`.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 32) * kFactor;
  value = (value ^ value >> 29) * kOther;
  return value ^ value >> 32;
}

/// For a given word one-to-one in the lane, and the other way round: a difference stays one. The
/// rotation brings high bits, which a product passes on to none, to where the next one spreads
/// them.
void take_block(Lanes& lanes, const std::byte* block) {
  Lanes words;
  std::memcpy(words.data(), block, kBlock);
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes[i] = rotated((lanes[i] ^ words[i]) * kFactor, 29);
  }
}

}  // namespace

QuickDigest quick_digest(Span<const std::byte> bytes) {
  Lanes lanes;
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(i + 1);
  const std::size_t whole = bytes.size() / kBlock * kBlock;
  for (std::size_t begin = 0; begin < whole; begin += kBlock) {
    take_block(lanes, bytes.data() + begin);
  }
  if (whole < bytes.size()) {
    std::array<std::byte, kBlock> last = {};
    std::memcpy(last.data(), bytes.data() + whole, bytes.size() - whole);
    take_block(lanes, last.data());
  }
  // The length tells bytes from the same ones with zeros behind them.
  QuickDigest digest{bytes.size(), ~std::uint64_t{bytes.size()}};
  for (const std::uint64_t lane : lanes) {
    digest.first = mixed(digest.first ^ lane);
    digest.second = mixed(rotated(digest.second, 23) + lane);
  }
  return digest;
}

}  // namespace troupe
