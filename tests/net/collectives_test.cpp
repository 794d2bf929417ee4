#include "troupe/distributed/collectives/collectives.h"

#include <atomic>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/serial_sum.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/text.h"

namespace collectives_test {

namespace {

using troupe::Deadline;
using troupe::GroupOptions;
using troupe::Span;
using troupe::WorkerGroup;
using troupe::detail::SumRoute;
using troupe::testing::run_group;
using troupe::testing::soon;
using troupe::testing::test_options;

const std::vector<int> kWorldSizes = {1, 2, 3, 4, 7};
// All small ones, powers of two and their neighbours, and one beyond the mesh.
const std::vector<int> kSumWorldSizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17};

std::vector<std::size_t> lengths_for(int world_size) {
  const auto w = static_cast<std::size_t>(world_size);
  return {0, 1, w - 1, w, 1000, 300000};
}

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

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
using ByRank = std::vector<std::vector<T>>;

template <class T>
std::vector<T> sum_of_ranks(int world_size, std::size_t n) {
  ByRank<T> operands;
  for (int rank = 0; rank < world_size; ++rank) operands.push_back(values_of<T>(rank, n));
  return troupe::testing::serial_sum(operands);
}

/// Twice, so that a repeat with other bits shows.
template <class T>
void check_all_reduce(int world_size, const std::vector<std::size_t>& lengths,
                      const GroupOptions& options) {
  std::vector<std::vector<T>> expected;
  for (const std::size_t n : lengths) expected.push_back(sum_of_ranks<T>(world_size, n));
  run_group(
      world_size,
      [&](WorkerGroup& group) {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          for (int repeat = 0; repeat < 2; ++repeat) {
            auto values = values_of<T>(group.rank(), lengths[i]);
            group.all_reduce(Span<T>(values), soon());
            if (!same_bits(values, expected[i])) {
              throw std::runtime_error(troupe::text("wrong bits: ", lengths[i], " values"));
            }
          }
        }
      },
      options);
}

template <class T>
void check_all_reduce() {
  for (const int world_size : kWorldSizes) {
    CAPTURE(world_size);
    check_all_reduce<T>(world_size, lengths_for(world_size), test_options());
  }
}

}  // namespace

TEST_SUITE("net") {
  TEST_CASE("all_reduce: float is the serial sum in rank order, bit for bit") {
    check_all_reduce<float>();
  }
  TEST_CASE("all_reduce: double is the serial sum in rank order, bit for bit") {
    check_all_reduce<double>();
  }
  TEST_CASE("all_reduce: int64 is the serial sum") { check_all_reduce<std::int64_t>(); }

  TEST_CASE("all_reduce: every algorithm gives the same bits at every world size") {
    for (const int world_size : kSumWorldSizes) {
      for (const SumRoute route : {SumRoute::doubling, SumRoute::direct, SumRoute::two_level}) {
        for (const int group_size : {1, 2, 4, 8, 32}) {
          // Of more than kMaxMesh ranks, only a group is linked with all.
          const bool mesh_wanted = route != SumRoute::two_level;
          if (mesh_wanted != (group_size == 32)) continue;
          GroupOptions options = test_options();
          options.sum_route = route;
          options.group_size = group_size;
          CAPTURE(world_size);
          CAPTURE(route);
          CAPTURE(group_size);
          check_all_reduce<float>(world_size, {0, 1, 63, 1001, 70001}, options);
        }
      }
    }
  }

  TEST_CASE("all_reduce: lengths around the change of algorithm and beyond every window") {
    const std::size_t edge = troupe::kDoublingMaxBytes / sizeof(float);
    for (const int world_size : {2, 3, 5, 17}) {
      CAPTURE(world_size);
      check_all_reduce<float>(world_size, {edge - 1, edge, edge + 1, edge + 17, 3000017},
                              test_options());
    }
    check_all_reduce<double>(3, {1000003}, test_options());
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

  TEST_CASE("gather: blocks of any length reach rank 0 alone, and no other rank's traffic") {
    constexpr std::size_t kPiece = troupe::kScratchBytes;
    for (const int world_size : kWorldSizes) {
      run_group(world_size, [&](WorkerGroup& group) {
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, kPiece, 2 * kPiece + 3}) {
          const auto block_of = [n](int rank) {
            const std::size_t bytes = rank % 3 == 2 ? n / 2 : n;
            return std::vector<std::byte>(bytes, static_cast<std::byte>(rank + 1));
          };
          const auto mine = block_of(group.rank());
          const std::uint64_t before = group.sent_bytes();
          const auto all = group.gather(mine);
          if (all.size() != (group.rank() == 0 ? static_cast<std::size_t>(world_size) : 0)) {
            throw std::runtime_error("size");
          }
          for (std::size_t rank = 0; rank < all.size(); ++rank) {
            if (all[rank] != block_of(static_cast<int>(rank))) throw std::runtime_error("block");
          }
          // An odd rank is a leaf of the tree: it sends its own block, once.
          const std::uint64_t sent = group.sent_bytes() - before;
          const std::uint64_t own = group.rank() == 0 ? 0 : mine.size();
          const bool is_leaf = group.rank() == 0 || group.rank() % 2 == 1;
          if (is_leaf && sent > own + 4096) throw std::runtime_error("it sent more than its own");
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

}  // namespace collectives_test
