// Topology: which ranks exchange sums, as functions of ranks alone, so that all ranks agree.
//
// A *branch* is the ranks below a node of the tree in which values are added (tree_cut.h). A
// *group* is 2^k aligned ranks, the last one may be short, inside which the two-level all-reduce
// works first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "troupe/core/options/cluster.h"
#include "troupe/core/options/group_options.h"
#include "troupe/core/span.h"
#include "troupe/distributed/group/tree_cut.h"

namespace troupe {

// Slices: how values are cut for the ranks that sum them. A slice begins at a multiple of 64 bytes,
// a cache line, so that loops vectorise; the last ones may be short or empty.

inline constexpr std::size_t kSliceAlignment = 64;

/// Slices `begin` to `end` of `parts` equal ones.
[[nodiscard]] inline Span<std::byte> slices_of(Span<std::byte> values, int parts, int begin,
                                               int end) {
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t fair = (values.size() + count - 1) / count;
  const std::size_t stride = (fair + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  const std::size_t first = std::min(values.size(), stride * static_cast<std::size_t>(begin));
  const std::size_t last = std::min(values.size(), stride * static_cast<std::size_t>(end));
  return values.subspan(first, last - first);
}

[[nodiscard]] inline Span<std::byte> slice_of(Span<std::byte> values, int parts, int index) {
  return slices_of(values, parts, index, index + 1);
}

/// Where two branches are joined, one of them `rank`'s: the rank of the other one whose sum `rank`
/// takes. It stands there as `rank` does in its own; ranks of the smaller branch serve several.
[[nodiscard]] int partner_of(int rank, const TreeCut::Join& join);
/// The ranks that take the sum of this rank's branch from it, as their partner: begin, begin +
/// step,
/// ... below end.
struct Served {
  int begin = 0;
  int end = 0;
  int step = 1;
};
[[nodiscard]] Served served_by(int rank, const TreeCut::Join& join);

/// Up to here every rank is linked with every other one: 16 ranks of a machine make 120 links, and
/// a rank that sums a slice adds 16 operands of a scratch that fits into the level-2 cache.
inline constexpr int kMaxMesh = 16;

/// Ranks of one group of the two-level all-reduce: `wanted` if it is a power of two, else the
/// smallest power of two whose square is not below world_size, so that a rank has as many links
/// inside its group as across groups.
[[nodiscard]] int group_size_for(int world_size, int wanted);

/// The ranks of `rank`'s group, in order.
[[nodiscard]] std::vector<int> group_of(int rank, int group_size, int world_size);

/// A group's values are cut into group_size slices; a rank of it owns those from `begin` to `end`,
/// one in a full group, several in a short one.
struct OwnedSlices {
  int begin = 0;
  int end = 0;
};
[[nodiscard]] OwnedSlices owned_slices(int rank, int group_size, int world_size);
/// The owners of one slice, one of each group, in order.
[[nodiscard]] std::vector<int> slice_owners(int slice, int group_size, int world_size);

/// The ranks that `rank` is linked with, ascending: all up to kMaxMesh ranks; beyond, those at
/// distances of powers of two, partners, its group, and the other owners of its slices.
[[nodiscard]] std::vector<int> linked_ranks(int rank, int world_size, int group_size);

/// Which node of the tree of sums each worker hosts.
/// Throws: ConfigError naming --virtual-replicas where the workers cannot host them.
[[nodiscard]] TreeCut cut_of(const Cluster& cluster, const GroupOptions& options);

}  // namespace troupe
