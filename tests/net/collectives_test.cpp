#include "distributed/collectives.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/test_prelude.h"

namespace {

using troupe::Deadline;
using troupe::Span;
using troupe::WorkerGroup;
using troupe::testing::run_group;

const std::vector<int> kWorldSizes = {1, 2, 3, 4, 7};

std::vector<std::size_t> lengths_for(int world_size) {
  const auto w = static_cast<std::size_t>(world_size);
  return {0, 1, w - 1, w, 1000, 300000};
}

Deadline soon() { return Deadline::in(std::chrono::seconds(20)); }

// A value with all of its mantissa in use, so that the order of additions shows.
template <class T>
T value_of(int rank, std::size_t i) {
  const auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761U + 40503U * (1 + rank));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(mixed) - (T{1} << 31);
  } else {
    return static_cast<T>(mixed) / static_cast<T>(3) - static_cast<T>(7e8);
  }
}

template <class T>
std::vector<T> values_of(int rank, std::size_t n) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = value_of<T>(rank, i);
  return values;
}

// The sum in long double and the sum of magnitudes; an error bound for any order of additions.
template <class T>
bool close_to_serial_sum(const std::vector<T>& got, int world_size) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    long double sum = 0;
    long double magnitude = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      const auto value = static_cast<long double>(value_of<T>(rank, i));
      sum += value;
      magnitude += value < 0 ? -value : value;
    }
    const long double error = static_cast<long double>(got[i]) - sum;
    const long double epsilon =
        std::is_integral_v<T> ? 0 : static_cast<long double>(std::numeric_limits<T>::epsilon());
    if ((error < 0 ? -error : error) > magnitude * epsilon * world_size) return false;
  }
  return true;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_all_reduce() {
  for (const int world_size : kWorldSizes) {
    for (const std::size_t n : lengths_for(world_size)) {
      std::vector<std::vector<T>> results(static_cast<std::size_t>(world_size));
      std::vector<std::vector<T>> repeats(static_cast<std::size_t>(world_size));
      run_group(world_size, [&](WorkerGroup& group) {
        auto values = values_of<T>(group.rank(), n);
        group.all_reduce(Span<T>(values), soon());
        results[static_cast<std::size_t>(group.rank())] = values;
        values = values_of<T>(group.rank(), n);
        group.all_reduce(Span<T>(values), soon());
        repeats[static_cast<std::size_t>(group.rank())] = values;
      });
      CAPTURE(world_size);
      CAPTURE(n);
      CHECK(close_to_serial_sum(results[0], world_size));
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        CHECK(same_bits(results[rank], results[0]));
        CHECK(same_bits(repeats[rank], results[0]));
      }
    }
  }
}

template <class T>
void check_reduce() {
  for (const int world_size : kWorldSizes) {
    for (const std::size_t n : lengths_for(world_size)) {
      for (const int root : {0, world_size - 1, world_size / 2}) {
        std::vector<T> result;
        std::vector<T> repeat;
        run_group(world_size, [&](WorkerGroup& group) {
          for (auto* kept : {&result, &repeat}) {
            auto values = values_of<T>(group.rank(), n);
            group.reduce(Span<T>(values), root, soon());
            if (group.rank() == root) *kept = values;
          }
        });
        CAPTURE(world_size);
        CAPTURE(n);
        CHECK(result.size() == n);
        CHECK(close_to_serial_sum(result, world_size));
        CHECK(same_bits(result, repeat));
      }
    }
  }
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("all_reduce: float is the serial sum, bit-identical on all ranks and repeats") {
    check_all_reduce<float>();
  }
  TEST_CASE("all_reduce: double is the serial sum, bit-identical on all ranks and repeats") {
    check_all_reduce<double>();
  }
  TEST_CASE("all_reduce: int64 is the serial sum") { check_all_reduce<std::int64_t>(); }

  TEST_CASE("reduce: float is the serial sum at the root") { check_reduce<float>(); }
  TEST_CASE("reduce: double is the serial sum at the root") { check_reduce<double>(); }
  TEST_CASE("reduce: int64 is the serial sum at the root") { check_reduce<std::int64_t>(); }

  TEST_CASE("all_reduce: lengths around the change from doubling to ring") {
    const std::size_t edge = troupe::kDoublingMaxBytes / sizeof(float);
    run_group(3, [&](WorkerGroup& group) {
      for (const std::size_t n : {edge - 1, edge, edge + 1, edge + 17}) {
        auto values = values_of<float>(group.rank(), n);
        group.all_reduce(Span<float>(values), soon());
        if (!close_to_serial_sum(values, 3)) throw std::runtime_error("wrong sum");
      }
    });
  }

  TEST_CASE("broadcast: every rank ends with the root's bytes") {
    for (const int world_size : kWorldSizes) {
      run_group(world_size, [&](WorkerGroup& group) {
        for (const std::size_t n : lengths_for(world_size)) {
          for (int root = 0; root < world_size; ++root) {
            auto values = values_of<std::int64_t>(group.rank(), n);
            group.broadcast(troupe::as_writable_bytes(Span<std::int64_t>(values)), root, soon());
            if (values != values_of<std::int64_t>(root, n)) throw std::runtime_error("wrong bytes");
          }
        }
      });
    }
  }

  TEST_CASE("all_gather: blocks of different lengths arrive by rank") {
    for (const int world_size : kWorldSizes) {
      run_group(world_size, [&](WorkerGroup& group) {
        for (const std::size_t n : lengths_for(world_size)) {
          const auto block_of = [n](int rank) {
            return values_of<double>(rank, rank % 2 == 0 ? n : n / 2);
          };
          const auto mine = block_of(group.rank());
          const auto all = group.all_gather(
              troupe::as_bytes(Span<const double>(mine.data(), mine.size())), soon());
          if (all.size() != static_cast<std::size_t>(world_size)) throw std::runtime_error("size");
          for (int rank = 0; rank < world_size; ++rank) {
            const auto expected = block_of(rank);
            const auto& got = all[static_cast<std::size_t>(rank)];
            const bool same =
                got.size() == expected.size() * sizeof(double) &&
                (got.empty() || std::memcmp(got.data(), expected.data(), got.size()) == 0);
            if (!same) throw std::runtime_error("wrong block");
          }
        }
      });
    }
  }

  TEST_CASE("barrier: nobody leaves before the last has come") {
    for (const int world_size : kWorldSizes) {
      std::atomic<int> arrived{0};
      run_group(world_size, [&](WorkerGroup& group) {
        for (int round = 1; round <= 20; ++round) {
          arrived.fetch_add(1);
          group.barrier(soon());
          if (arrived.load() < round * world_size) throw std::runtime_error("left too early");
        }
      });
    }
  }
}
