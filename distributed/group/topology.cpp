#include "troupe/distributed/group/topology.h"

#include <set>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

bool is_power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }

}  // namespace

int partner_of(int rank, const TreeCut::Join& join) {
  const bool is_left = rank < join.middle;
  const int own = is_left ? join.first : join.middle;
  const int other = is_left ? join.middle : join.first;
  const int others = is_left ? join.last - join.middle : join.middle - join.first;
  return other + (rank - own) % others;
}

Served served_by(int rank, const TreeCut::Join& join) {
  const bool is_left = rank < join.middle;
  const int ranks = is_left ? join.middle - join.first : join.last - join.middle;
  if (is_left) return {join.middle + rank - join.first, join.last, ranks};
  return {join.first + rank - join.middle, join.middle, ranks};
}

int group_size_for(int world_size, int wanted) {
  if (is_power_of_two(wanted)) return wanted;
  int size = 1;
  while (size * size < world_size) size *= 2;
  return size;
}

std::vector<int> group_of(int rank, int group_size, int world_size) {
  const int first = rank / group_size * group_size;
  std::vector<int> ranks;
  for (int i = first; i < std::min(first + group_size, world_size); ++i) ranks.push_back(i);
  return ranks;
}

OwnedSlices owned_slices(int rank, int group_size, int world_size) {
  const int first = rank / group_size * group_size;
  const int size = std::min(group_size, world_size - first);
  const int index = rank - first;
  return {index * group_size / size, (index + 1) * group_size / size};
}

std::vector<int> slice_owners(int slice, int group_size, int world_size) {
  std::vector<int> ranks;
  for (int first = 0; first < world_size; first += group_size) {
    const int size = std::min(group_size, world_size - first);
    ranks.push_back(first + ((slice + 1) * size - 1) / group_size);
  }
  return ranks;
}

std::vector<int> linked_ranks(int rank, int world_size, int group_size) {
  std::set<int> ranks;
  const auto add = [&ranks](const std::vector<int>& more) {
    ranks.insert(more.begin(), more.end());
  };
  if (world_size <= kMaxMesh) add(group_of(rank, kMaxMesh, world_size));
  for (int distance = 1; distance < world_size; distance *= 2) {
    add({(rank + distance) % world_size, (rank - distance + world_size) % world_size});
  }
  for (const TreeCut::Join& join : TreeCut(world_size).joins_of(rank)) {
    add({partner_of(rank, join)});
    const Served served = served_by(rank, join);
    for (int peer = served.begin; peer < served.end; peer += served.step) add({peer});
  }
  add(group_of(rank, group_size, world_size));
  const OwnedSlices own = owned_slices(rank, group_size, world_size);
  for (int slice = own.begin; slice < own.end; ++slice) {
    add(slice_owners(slice, group_size, world_size));
  }
  ranks.erase(rank);
  return {ranks.begin(), ranks.end()};
}

TreeCut cut_of(const Cluster& cluster, const GroupOptions& options) {
  const int workers = cluster.world_size();
  const int leaves = options.virtual_replicas;
  if (leaves == 0) return TreeCut(workers);
  if (leaves < workers) {
    throw ConfigError(
        text("--virtual-replicas ", leaves, " is fewer than the ", workers, " workers."),
        text("start at most ", leaves, " workers, or give more virtual replicas to a new run."));
  }
  TreeCut cut(leaves, workers);
  // Two levels sum groups of neighbours first, and beyond a mesh links are those of rank order.
  const bool is_direct = workers <= kMaxMesh && options.sum_route != detail::SumRoute::two_level;
  if (is_direct || cut.is_rank_order()) return cut;
  throw ConfigError(
      text("--virtual-replicas ", leaves, " on ", workers,
           " workers cannot be summed in two levels, as more than ", kMaxMesh, " workers do."),
      text("use at most ", kMaxMesh, " workers, or as many virtual replicas as ",
           "workers, or 2, 4, 8, ... times as many."));
}

}  // namespace troupe
