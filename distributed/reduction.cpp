// Compiled with -O3 in every build type (distributed/CMakeLists.txt): g++ vectorises these loops,
// and element-wise sums of vectors round as the scalar ones do.
#include "distributed/reduction.h"

#include <type_traits>

namespace troupe {
namespace {

template <class T>
void add_into(std::byte* into, const std::byte* from, std::size_t count) {
  // Signed overflow is undefined; the sum of the bits as unsigned numbers wraps around.
  using Value =
      std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::enable_if<true, T>>;
  using Sum = typename Value::type;
  Sum* __restrict a = reinterpret_cast<Sum*>(into);
  const Sum* __restrict b = reinterpret_cast<const Sum*>(from);
  for (std::size_t i = 0; i < count; ++i) a[i] += b[i];
}

}  // namespace

template <>
Reduction sum_of<float>() {
  return {DType::float32, sizeof(float), add_into<float>};
}
template <>
Reduction sum_of<double>() {
  return {DType::float64, sizeof(double), add_into<double>};
}
template <>
Reduction sum_of<std::int64_t>() {
  return {DType::int64, sizeof(std::int64_t), add_into<std::int64_t>};
}

}  // namespace troupe
