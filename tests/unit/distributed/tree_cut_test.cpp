#include "troupe/distributed/group/tree_cut.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/serial_sum.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/distributed/collectives/reduction.h"
#include "troupe/distributed/group/topology.h"
#include "troupe/distributed/worker_group.h"

namespace {

using namespace troupe;  // NOLINT: a test

std::vector<int> sizes_of(const TreeCut& cut) {
  std::vector<int> sizes;
  for (int part = 0; part < cut.parts(); ++part) sizes.push_back(cut.node(part).size());
  return sizes;
}

// Sizes far apart and all of the mantissa in use, so that every other order shows.
std::vector<std::vector<float>> leaves_of(int count) {
  std::vector<std::vector<float>> leaves;
  std::uint32_t state = 12345;
  for (int leaf = 0; leaf < count; ++leaf) {
    leaves.emplace_back();
    for (int i = 0; i < 24; ++i) {
      state = state * 1664525U + 1013904223U;
      leaves.back().push_back(static_cast<float>(static_cast<std::int32_t>(state)) /
                              static_cast<float>(1U << state % 23));
    }
  }
  return leaves;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Each part's leaves by themselves.
std::vector<std::vector<float>> sums_of_parts(const TreeCut& cut,
                                              const std::vector<std::vector<float>>& leaves) {
  std::vector<std::vector<float>> sums;
  for (int part = 0; part < cut.parts(); ++part) {
    const TreeCut::Node node = cut.node(part);
    sums.push_back(testing::serial_sum(
        std::vector<std::vector<float>>(leaves.begin() + node.begin, leaves.begin() + node.end)));
  }
  return sums;
}

std::vector<float> sum_along(const TreeCut& cut, std::vector<std::vector<float>> parts,
                             std::size_t place) {
  std::vector<const std::byte*> at;
  for (const auto& values : parts) at.push_back(reinterpret_cast<const std::byte*>(values.data()));
  add_along_tree(reinterpret_cast<std::byte*>(parts[place].data()),
                 Span<const std::byte* const>(at.data(), at.size()), parts[place].size(),
                 sum_of<float>(), cut);
  return parts[place];
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("TreeCut: the last of the largest nodes is split, as the tree splits it") {
    CHECK(sizes_of(TreeCut(8, 3)) == std::vector<int>{4, 2, 2});
    CHECK(sizes_of(TreeCut(8, 5)) == std::vector<int>{2, 2, 2, 1, 1});
    CHECK(sizes_of(TreeCut(7, 3)) == std::vector<int>{2, 2, 3});
    CHECK(sizes_of(TreeCut(16, 3)) == std::vector<int>{8, 4, 4});
    CHECK(sizes_of(TreeCut(12, 5)) == std::vector<int>{4, 2, 2, 2, 2});
    CHECK(sizes_of(TreeCut(6, 6)) == std::vector<int>{1, 1, 1, 1, 1, 1});
    CHECK(sizes_of(TreeCut(5)) == std::vector<int>{1, 1, 1, 1, 1});
    CHECK(sizes_of(TreeCut(5, 1)) == std::vector<int>{5});
  }

  TEST_CASE(
      "TreeCut: sums of nodes, added above the cut, are the sum over all leaves, bit for bit") {
    for (int leaves = 1; leaves <= 64; ++leaves) {
      const auto values = leaves_of(leaves);
      const std::vector<float> expected = testing::serial_sum(values);
      bool all_equal = true;
      bool differs_in_rank_order = false;
      for (int parts = 1; parts <= leaves; ++parts) {
        const TreeCut cut(leaves, parts);
        CHECK(cut.parts() == parts);
        CHECK(cut.leaves() == leaves);
        const auto sums = sums_of_parts(cut, values);
        for (std::size_t place = 0; place < sums.size(); ++place) {
          all_equal = all_equal && same_bits(sum_along(cut, sums, place), expected);
        }
        const bool ranks_agree = same_bits(sum_along(TreeCut(parts), sums, 0), expected);
        if (cut.is_rank_order()) CHECK(ranks_agree);
        differs_in_rank_order = differs_in_rank_order || !ranks_agree;
      }
      CAPTURE(leaves);
      CHECK(all_equal);
      if (leaves == 8) CHECK(differs_in_rank_order);  // 4, 2, 2: the values can tell
    }
  }

  TEST_CASE("TreeCut: where a node of 2^k leaves is each part's, parts are added in rank order") {
    for (int parts = 1; parts <= 40; ++parts) {
      for (const int size : {1, 2, 4, 8}) {
        const TreeCut cut(parts * size, parts);
        CHECK(cut.is_rank_order());
        CHECK(sizes_of(cut) == std::vector<int>(static_cast<std::size_t>(parts), size));
      }
    }
    CHECK(!TreeCut(8, 3).is_rank_order());
    CHECK(!TreeCut(8, 5).is_rank_order());
  }

  TEST_CASE(
      "TreeCut: the joins of a part lead from itself to the whole, each by a split of the tree") {
    for (int leaves = 1; leaves <= 64; ++leaves) {
      for (int parts = 1; parts <= leaves; ++parts) {
        const TreeCut cut(leaves, parts);
        bool right = true;
        for (int part = 0; part < parts; ++part) {
          TreeCut::Join below{part, part, part + 1};
          for (const TreeCut::Join& join : cut.joins_of(part)) {
            const bool from_left = below.first == join.first && below.last == join.middle;
            const bool from_right = below.first == join.middle && below.last == join.last;
            right = right && from_left != from_right &&
                    join.middle == cut.middle(join.first, join.last);
            below = join;
          }
          right = right && below.first == 0 && below.last == parts;
        }
        CAPTURE(leaves);
        CAPTURE(parts);
        CHECK(right);
      }
    }
  }

  TEST_CASE("cut_of: workers that cannot host the virtual replicas are refused by name") {
    const auto cut = [](int workers, int virtual_replicas,
                        detail::SumRoute route = detail::SumRoute::automatic) {
      testing::LoopbackListener listener;
      GroupOptions options = testing::test_options();
      options.virtual_replicas = virtual_replicas;
      options.sum_route = route;
      return cut_of(testing::make_clusters(workers, listener).front(), options);
    };
    CHECK(cut(3, 0).is_rank_order());
    CHECK(cut(3, 0).leaves() == 3);
    CHECK(sizes_of(cut(3, 8)) == std::vector<int>{4, 2, 2});
    CHECK(cut(17, 34).is_rank_order());
    CHECK_THROWS_WITH_AS((void)cut(3, 2), doctest::Contains("--virtual-replicas 2 is fewer than"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((void)cut(17, 64), doctest::Contains("cannot be summed in two levels"),
                         ConfigError);
    CHECK_THROWS_WITH_AS((void)cut(3, 8, detail::SumRoute::two_level),
                         doctest::Contains("cannot be summed in two levels"), ConfigError);
  }
}
