// Every pattern of both formats, and every place where the nearest number changes.
#include <cmath>
#include <initializer_list>
#include <limits>

#include "tests/support/test_prelude.h"
#include "troupe/distributed/collectives/rounding.h"

namespace {

using troupe::BFloat16;
using troupe::Float16;

constexpr std::uint32_t kPatterns = 65536;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// What the pattern means by the definition of the format; exponent and significand bits as given.
double meaning(std::uint32_t pattern, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = static_cast<double>(pattern & ((1U << fraction_bits) - 1));
  const int exponent = static_cast<int>((pattern >> fraction_bits) & ((1U << exponent_bits) - 1));
  const double sign = (pattern & 0x8000U) != 0 ? -1.0 : 1.0;
  const double one = std::ldexp(1.0, fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(one + fraction, exponent - bias - fraction_bits);
}

/// Whether `value` becomes `expected`, and its negative the negative.
template <class Half>
bool rounds_to(float value, std::uint32_t expected) {
  return Half::from(value) == expected && Half::from(-value) == (expected | 0x8000U);
}

template <class Half>
void check_patterns(int exponent_bits, int fraction_bits) {
  int wrong = 0;
  for (std::uint32_t i = 0; i < kPatterns; ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    const float value = Half::to_float(half);
    const double expected = meaning(i, exponent_bits, fraction_bits);
    if (std::isnan(expected)) {
      const std::uint16_t back = Half::from(value);  // quiet now, else the same
      const auto quiet = static_cast<std::uint16_t>(i | (1U << (fraction_bits - 1)));
      wrong += std::isnan(value) && std::isnan(Half::to_float(back)) && back == quiet ? 0 : 1;
    } else {
      const bool same_sign = std::signbit(value) == std::signbit(expected);
      wrong += static_cast<double>(value) == expected && same_sign ? 0 : 1;
      wrong += Half::from(value) == half ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

/// Between two neighbours: up to the middle the lower one, from there the upper one, in the middle
/// the even one.
template <class Half>
void check_rounding(std::uint32_t infinity) {
  int wrong = 0;
  for (std::uint32_t lower = 0; lower + 1 < infinity; ++lower) {
    const double low = Half::to_float(static_cast<std::uint16_t>(lower));
    const double high = Half::to_float(static_cast<std::uint16_t>(lower + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const std::uint32_t even = lower % 2 == 0 ? lower : lower + 1;
    wrong += rounds_to<Half>(middle, even) ? 0 : 1;
    wrong += rounds_to<Half>(std::nextafter(middle, 0.0F), lower) ? 0 : 1;
    wrong += rounds_to<Half>(std::nextafter(middle, kInfinity), lower + 1) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("half: all 65536 float16 patterns mean what IEEE 754 says, and come back") {
    check_patterns<Float16>(5, 10);
  }
  TEST_CASE("half: all 65536 bfloat16 patterns mean what they should, and come back") {
    check_patterns<BFloat16>(8, 7);
  }
  TEST_CASE("half: rounding is to nearest, ties to even, at every boundary of float16") {
    check_rounding<Float16>(0x7c00);
  }
  TEST_CASE("half: rounding is to nearest, ties to even, at every boundary of bfloat16") {
    check_rounding<BFloat16>(0x7f80);
  }

  TEST_CASE("half: what is too large becomes an infinity, from half a step beyond the largest on") {
    CHECK(rounds_to<Float16>(65504.0F, 0x7bff));
    CHECK(rounds_to<Float16>(std::nextafter(65520.0F, 0.0F), 0x7bff));
    CHECK(rounds_to<Float16>(65520.0F, 0x7c00));
    CHECK(rounds_to<Float16>(std::numeric_limits<float>::max(), 0x7c00));
    CHECK(rounds_to<Float16>(kInfinity, 0x7c00));
    CHECK(rounds_to<BFloat16>(std::numeric_limits<float>::max(), 0x7f80));
    CHECK(rounds_to<BFloat16>(kInfinity, 0x7f80));
  }

  TEST_CASE("half: a NaN of any payload stays one, and what is tiny becomes zero of its sign") {
    for (const std::uint32_t payload : {0x00000001U, 0x00001fffU, 0x003fffffU, 0x007fffffU}) {
      const float not_a_number = troupe::detail::float_of(0x7f800000U | payload);
      CHECK(std::isnan(Float16::to_float(Float16::from(not_a_number))));
      CHECK(std::isnan(BFloat16::to_float(BFloat16::from(not_a_number))));
    }
    CHECK(rounds_to<Float16>(0x1p-25F, 0));  // a tie with the smallest: even is zero
    CHECK(rounds_to<Float16>(std::numeric_limits<float>::denorm_min(), 0));
    CHECK(rounds_to<BFloat16>(std::numeric_limits<float>::denorm_min(), 0));
  }
}
