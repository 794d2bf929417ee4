#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/serial_sum.h"
#include "tests/support/test_prelude.h"
#include "troupe/distributed/collectives/reduction.h"

namespace {

using troupe::Reduction;
using troupe::Span;

template <class T>
using Operands = std::vector<std::vector<T>>;

// All of the mantissa in use and sizes far apart, so that every other order shows.
template <class T>
Operands<T> random_operands(std::size_t ranks, std::size_t count) {
  std::mt19937_64 random(ranks * 1000 + count);
  Operands<T> operands(ranks, std::vector<T>(count));
  for (auto& values : operands) {
    for (T& value : values) {
      const auto bits = random();
      if constexpr (std::is_floating_point_v<T>) {
        value = static_cast<T>(static_cast<std::int64_t>(bits)) / static_cast<T>(1 << bits % 29);
      } else {
        value = static_cast<T>(bits);
      }
    }
  }
  return operands;
}

template <class T, class Add>
void check_order(const Reduction& sum, const Add& add) {
  for (const std::size_t ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 64}) {
    // Blocks of reduction.cpp hold 4096 bytes; vectors up to 64.
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{77},
                                    4096 / sizeof(T), 4096 / sizeof(T) * 3 + 5}) {
      const Operands<T> operands = random_operands<T>(ranks, count);
      const std::vector<T> expected = troupe::testing::serial_sum(operands, add);
      // In place of each operand, and beside them all.
      for (std::size_t place = 0; place <= ranks; ++place) {
        Operands<T> working = operands;
        working.emplace_back(count);
        std::vector<const std::byte*> at;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          at.push_back(reinterpret_cast<const std::byte*>(working[rank].data()));
        }
        troupe::add_along_tree(reinterpret_cast<std::byte*>(working[place].data()),
                               Span<const std::byte* const>(at.data(), at.size()), count, sum,
                               troupe::TreeCut(static_cast<int>(ranks)));
        CAPTURE(ranks);
        CAPTURE(count);
        CAPTURE(place);
        const bool same_bits = count == 0 || std::memcmp(working[place].data(), expected.data(),
                                                         count * sizeof(T)) == 0;
        CHECK(same_bits);
        bool others_unchanged = true;
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          if (rank != place && working[rank] != operands[rank]) others_unchanged = false;
        }
        CHECK(others_unchanged);
      }
    }
  }
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("rank order: float is added along the tree, in place of any operand") {
    check_order<float>(troupe::sum_of<float>(), troupe::testing::plain_add<float>);
  }
  TEST_CASE("rank order: double is added along the tree, in place of any operand") {
    check_order<double>(troupe::sum_of<double>(), troupe::testing::plain_add<double>);
  }
  TEST_CASE("rank order: int64 wraps around") {
    check_order<std::uint64_t>(troupe::sum_of<std::int64_t>(),
                               troupe::testing::plain_add<std::uint64_t>);
  }
}
