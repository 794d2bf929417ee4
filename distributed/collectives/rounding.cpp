// Compiled with -O3 in every build type, as reduction.cpp is.
#include "troupe/distributed/collectives/rounding.h"

namespace troupe {
namespace {

/// Exact for every finite number: what is rounded away has fewer bits than a float.
template <class Half>
float lost(float exact, std::uint16_t rounded) {
  const float error = exact - Half::to_float(rounded);
  constexpr std::uint32_t kExponent = 0x7f800000U;
  return (detail::bits_of(error) & kExponent) == kExponent ? 0.0F : error;
}

template <class Half>
void round(const float* __restrict values, float* __restrict errors, std::uint16_t* __restrict wire,
           std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float exact = values[i] + errors[i];
    wire[i] = Half::from(exact);
    errors[i] = lost<Half>(exact, wire[i]);
  }
}

template <class Half>
void add_and_round(const float* __restrict values, float* __restrict errors,
                   const std::uint16_t* __restrict received, std::uint16_t* __restrict wire,
                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float exact = (values[i] + errors[i]) + Half::to_float(received[i]);
    wire[i] = Half::from(exact);
    errors[i] = lost<Half>(exact, wire[i]);
  }
}

template <class Half>
void widen(const std::uint16_t* __restrict wire, float* __restrict values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = Half::to_float(wire[i]);
}

}  // namespace

Rounding rounding_to(WireType type) {
  if (type == WireType::float16)
    return {DType::float16, round<Float16>, add_and_round<Float16>, widen<Float16>};
  return {DType::bfloat16, round<BFloat16>, add_and_round<BFloat16>, widen<BFloat16>};
}

}  // namespace troupe
