// Compiled with -O3 in every build type (distributed/CMakeLists.txt): g++ vectorises these loops,
// and element-wise sums of vectors round as the scalar ones do, whatever the vectors' length.
#include "distributed/collectives/reduction.h"

#include "core/check.h"
#include "distributed/collectives/half.h"

// The same loops for the longest vectors of this processor; chosen once, when a Reduction is made.
#if defined(__x86_64__)
#define TROUPE_FOR_AVX2 __attribute__((target("avx2")))
#endif

namespace troupe {
namespace {

struct Float32 {
  using Value = float;
  static float add(float a, float b) { return a + b; }
};
struct Float64 {
  using Value = double;
  static double add(double a, double b) { return a + b; }
};
struct Int64 {
  using Value = std::uint64_t;  // signed overflow is undefined, and the bits are the same
  static std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a + b; }
};
struct BFloat16Sum {
  using Value = std::uint16_t;
  static std::uint16_t add(std::uint16_t a, std::uint16_t b) {
    return BFloat16::from(BFloat16::to_float(a) + BFloat16::to_float(b));
  }
};

// No element depends on another one ("ivdep"): `into` is an operand or overlaps none.
template <class Type>
[[gnu::always_inline]] inline void add_elements(std::byte* into, const std::byte* const* operands,
                                                int operand_count, std::size_t count) {
  using Value = typename Type::Value;
  const auto operand = [&](int i) { return reinterpret_cast<const Value*>(operands[i]); };
  auto* const out = reinterpret_cast<Value*>(into);
  const Value* const a = operand(0);
  const Value* const b = operand(operand_count > 1 ? 1 : 0);
  const Value* const c = operand(operand_count > 2 ? 2 : 0);
  const Value* const d = operand(operand_count > 3 ? 3 : 0);
  switch (operand_count) {
    case 1:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = a[i];
      break;
    case 2:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = Type::add(a[i], b[i]);
      break;
    case 3:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) out[i] = Type::add(Type::add(a[i], b[i]), c[i]);
      break;
    case kMaxOperands:
#pragma GCC ivdep
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = Type::add(Type::add(a[i], b[i]), Type::add(c[i], d[i]));
      }
      break;
    default:
      TROUPE_CHECK(operand_count >= 1 && operand_count <= kMaxOperands);
  }
}

template <class Type>
void add_portable(std::byte* into, const std::byte* const* operands, int operand_count,
                  std::size_t count) {
  add_elements<Type>(into, operands, operand_count, count);
}

#if defined(TROUPE_FOR_AVX2)
template <class Type>
TROUPE_FOR_AVX2 void add_avx2(std::byte* into, const std::byte* const* operands, int operand_count,
                              std::size_t count) {
  add_elements<Type>(into, operands, operand_count, count);
}
#endif

template <class Type>
Reduction reduction_of(DType dtype) {
  auto* add = add_portable<Type>;
#if defined(TROUPE_FOR_AVX2)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) add = add_avx2<Type>;
#endif
  return {dtype, sizeof(typename Type::Value), add};
}

}  // namespace

template <>
Reduction sum_of<float>() {
  return reduction_of<Float32>(DType::float32);
}
template <>
Reduction sum_of<double>() {
  return reduction_of<Float64>(DType::float64);
}
template <>
Reduction sum_of<std::int64_t>() {
  return reduction_of<Int64>(DType::int64);
}
Reduction sum_of_bfloat16() { return reduction_of<BFloat16Sum>(DType::bfloat16); }

}  // namespace troupe
