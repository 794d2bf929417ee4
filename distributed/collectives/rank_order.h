// Rank order: the one order in which values of ranks are added, wherever they are added. It is the
// binary tree over ranks whose inner nodes begin at multiples of their size, absent ranks left out:
//   3 ranks   (x0 + x1) + x2
//   6 ranks   ((x0 + x1) + (x2 + x3)) + (x4 + x5)
// The sum of 2^k aligned ranks is a node of the tree, so recursive doubling, binomial trees and
// sums of sums of groups give these bits, too. docs/algorithms.md.
#pragma once

#include <cstddef>

#include "core/check.h"
#include "core/span.h"
#include "distributed/collectives/reduction.h"

namespace troupe {

/// add_in_rank_order of more operands than Reduction::add takes.
void add_branches(std::byte* into, Span<const std::byte* const> operands, std::size_t count,
                  const Reduction& sum);

/// into[i] = the sum of all operands at i in rank order, for `count` elements. `operands` are by
/// rank, at least one. `into` may be one of the operands, and overlaps none in another way.
/// Thread: any.  Blocks: no.  Throws: nothing.
inline void add_in_rank_order(std::byte* into, Span<const std::byte* const> operands,
                              std::size_t count, const Reduction& sum) {
  TROUPE_CHECK(!operands.empty());
  if (operands.size() > kMaxOperands) return add_branches(into, operands, count, sum);
  sum.add(into, operands.data(), static_cast<int>(operands.size()), count);
}

/// The largest power of two below `rank_count` (at least 2): ranks under the tree's left branch.
[[nodiscard]] constexpr std::size_t left_branch(std::size_t rank_count) {
  std::size_t ranks = 1;
  while (ranks * 2 < rank_count) ranks *= 2;
  return ranks;
}

}  // namespace troupe
