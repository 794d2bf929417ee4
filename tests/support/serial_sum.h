// serial_sum: the sum that every reduction must give, bit for bit, written as docs/algorithms.md
// says it: a branch of 2^k ranks is its lower half plus its upper half, ranks that do not exist
// left out.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe::testing {

template <class T>
T plain_add(T a, T b) {
  return a + b;
}

/// `operands` by rank, all of one length; `size` ranks from `first` on, a power of two.
template <class T, class Add>
std::vector<T> branch_sum(const std::vector<std::vector<T>>& operands, std::size_t first,
                          std::size_t size, const Add& add) {
  if (size == 1) return operands[first];
  const std::size_t upper = first + size / 2;
  std::vector<T> sum = branch_sum(operands, first, size / 2, add);
  if (upper >= operands.size()) return sum;
  const std::vector<T> upper_sum = branch_sum(operands, upper, size / 2, add);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = add(sum[i], upper_sum[i]);
  return sum;
}

template <class T, class Add = T (*)(T, T)>
std::vector<T> serial_sum(const std::vector<std::vector<T>>& operands,
                          const Add& add = plain_add<T>) {
  std::size_t size = 1;
  while (size < operands.size()) size *= 2;
  return branch_sum(operands, 0, size, add);
}

}  // namespace troupe::testing
