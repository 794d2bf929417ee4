// Reduction: how one element type is added, and in which order; the collectives work on bytes and
// this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "troupe/core/span.h"
#include "troupe/distributed/group/tree_cut.h"
#include "troupe/distributed/net/frame.h"

namespace troupe {

/// Operands that one call of Reduction::add takes.
inline constexpr int kMaxOperands = 4;

/// Memory is aligned to the element. Integers wrap around.
struct Reduction {
  DType dtype = DType::none;
  std::size_t element_bytes = 1;
  /// into[i] = the sum of `operand_count` (1 to kMaxOperands) operands at i, for `count` elements:
  /// a, a + b, (a + b) + c, (a + b) + (c + d). `into` may be one of the operands, and overlaps none
  /// in another way.
  void (*add)(std::byte* into, const std::byte* const* operands, int operand_count,
              std::size_t count) = nullptr;
};

/// For T in {float, double, std::int64_t}.
template <class T>
[[nodiscard]] Reduction sum_of();

// The one order in which values of ranks are added, wherever they are added, is that of a TreeCut.
// Where every rank is a leaf it is rank order:
//   3 ranks   (x0 + x1) + x2
//   6 ranks   ((x0 + x1) + (x2 + x3)) + (x4 + x5)
// The sum of 2^k aligned ranks is a node of the tree, so recursive doubling, binomial trees and
// sums of sums of groups give these bits, too. docs/algorithms.md.

/// into[i] = the sum of all operands at i in the order of `cut`, for `count` elements. `operands`
/// are by part, as many as the cut has. `into` may be one of the operands, and overlaps none in
/// another way. Thread: any.  Blocks: no.  Throws: nothing.
void add_along_tree(std::byte* into, Span<const std::byte* const> operands, std::size_t count,
                    const Reduction& sum, const TreeCut& cut);

}  // namespace troupe
