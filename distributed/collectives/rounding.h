// Rounding: how float values become 16 bits for the wire, what that loses, and how sums continue
// from there; the compressed all-reduce works with this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "troupe/distributed/net/frame.h"

namespace troupe {

/// Type of values while they travel, where it is not their own.
enum class WireType { float16, bfloat16 };

// Half: the two 16-bit floating-point formats that gradients may travel in, to and from float.
//
// float16 is IEEE 754 binary16: 11 bits of significand, largest number 65504. bfloat16 is the upper
// half of a float: 8 bits of significand, the range of float. Both round to nearest, ties to even;
// what is too large becomes an infinity, what is small a subnormal number or zero, and a NaN stays
// one (quiet). Without branches on values, so that loops over them vectorise.
// The processor's rounding mode is taken to be the default one, to nearest.

namespace detail {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace detail

struct Float16 {
  [[nodiscard]] static std::uint16_t from(float value) {
    const std::uint32_t bits = detail::bits_of(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t size = bits & 0x7fffffffU;
    // Half of the last place is added, or a bit less where that would round a tie to odd; the
    // carry may reach the exponent, which is then right, too. 112 is the difference of the biases.
    const std::uint32_t odd = (size >> 13) & 1U;
    const std::uint32_t normal = ((size + 0xfffU + odd) >> 13) - (112U << 10);
    // Next to 0.5 a float's last place is 2^-24, float16's smallest number: the addition rounds.
    const std::uint32_t small = detail::bits_of(detail::float_of(size) + 0.5F) - 0x3f000000U;
    std::uint32_t half = size < 0x38800000U ? small : normal;              // below 2^-14
    half = size >= 0x477ff000U ? 0x7c00U : half;                           // from 65520 on
    half = size > 0x7f800000U ? 0x7e00U | ((size >> 13) & 0x1ffU) : half;  // not a number
    return static_cast<std::uint16_t>(sign | half);
  }
  [[nodiscard]] static float to_float(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const std::uint32_t size = half & 0x7fffU;
    const std::uint32_t normal = (size << 13) + (112U << 23);
    const std::uint32_t small = detail::bits_of(static_cast<float>(size) * 0x1p-24F);
    std::uint32_t bits = size < 0x0400U ? small : normal;
    bits = size >= 0x7c00U ? normal + (112U << 23) : bits;  // infinity or not a number
    return detail::float_of(sign | bits);
  }
};

struct BFloat16 {
  [[nodiscard]] static std::uint16_t from(float value) {
    const std::uint32_t bits = detail::bits_of(value);
    const std::uint32_t odd = (bits >> 16) & 1U;
    const std::uint32_t rounded = (bits + 0x7fffU + odd) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;  // else rounding could make it an infinity
    const bool number = (bits & 0x7fffffffU) <= 0x7f800000U;
    return static_cast<std::uint16_t>(number ? rounded : quiet);
  }
  [[nodiscard]] static float to_float(std::uint16_t half) {
    return detail::float_of(static_cast<std::uint32_t>(half) << 16);
  }
};

/// All functions work on `count` values; arrays do not overlap.
struct Rounding {
  DType dtype = DType::none;
  /// x = values + errors; wire = x rounded; errors = x - wire.
  void (*round)(const float* values, float* errors, std::uint16_t* wire, std::size_t count);
  /// x = values + errors + received, added in float; wire = x rounded; errors = x - wire.
  void (*add_and_round)(const float* values, float* errors, const std::uint16_t* received,
                        std::uint16_t* wire, std::size_t count);
  void (*widen)(const std::uint16_t* wire, float* values, std::size_t count);
};

/// An error that is not finite, as of a value too large for the format, is kept as zero: the value
/// itself shows what happened.
[[nodiscard]] Rounding rounding_to(WireType type);

}  // namespace troupe
