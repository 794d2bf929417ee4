// Compiled with -O3 in every build type (strategies/CMakeLists.txt): g++ vectorises these loops.
#include "strategies/gradient_values.h"

#include <cmath>
#include <cstring>

namespace troupe::detail {
namespace {

// Copied values are looked at again while they are in the first-level cache.
constexpr std::size_t kBlock = 2048;

template <class Value>
bool within(const Value* values, std::size_t count, Value limit) {
  int beyond = 0;
  for (std::size_t i = 0; i < count; ++i) beyond |= std::fabs(values[i]) <= limit ? 0 : 1;
  return beyond == 0;
}

template <class Value>
bool copied_within(const Value* from, Value* into, std::size_t count, Value limit) {
  bool good = true;
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t size = count - first < kBlock ? count - first : kBlock;
    std::memcpy(into + first, from + first, size * sizeof(Value));
    good = within(from + first, size, limit) && good;
  }
  return good;
}

}  // namespace

bool copy_within(const float* from, float* into, std::size_t count, float limit) {
  return copied_within(from, into, count, limit);
}
bool copy_within(const double* from, double* into, std::size_t count, double limit) {
  return copied_within(from, into, count, limit);
}
bool are_within(const float* values, std::size_t count, float limit) {
  return within(values, count, limit);
}
bool are_within(const double* values, std::size_t count, double limit) {
  return within(values, count, limit);
}

}  // namespace troupe::detail
