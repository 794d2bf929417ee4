#include "distributed/collectives/topology.h"

#include <algorithm>
#include <set>

namespace troupe {
namespace {

struct Branches {
  int lower;       // first rank of the lower one
  int upper;       // first rank of the upper one
  int upper_size;  // below 1: there is none
};

Branches branches_around(int rank, int branch, int world_size) {
  const int lower = rank / (2 * branch) * (2 * branch);
  const int upper = lower + branch;
  return {lower, upper, std::min(branch, world_size - upper)};
}

bool is_power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }

}  // namespace

int partner_of(int rank, int branch, int world_size) {
  const Branches at = branches_around(rank, branch, world_size);
  if (at.upper_size < 1) return -1;
  if (rank >= at.upper) return rank - branch;
  return at.upper + (rank - at.lower) % at.upper_size;
}

Served served_by(int rank, int branch, int world_size) {
  const Branches at = branches_around(rank, branch, world_size);
  if (rank >= at.upper) return {rank - branch, at.upper, at.upper_size};
  const int other = rank + branch;
  return {other, std::min(other + 1, world_size), 1};
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
    add({partner_of(rank, distance, world_size)});
    const Served served = served_by(rank, distance, world_size);
    for (int peer = served.begin; peer < served.end; peer += served.step) add({peer});
  }
  add(group_of(rank, group_size, world_size));
  const OwnedSlices own = owned_slices(rank, group_size, world_size);
  for (int slice = own.begin; slice < own.end; ++slice) {
    add(slice_owners(slice, group_size, world_size));
  }
  ranks.erase(-1);
  ranks.erase(rank);
  return {ranks.begin(), ranks.end()};
}

}  // namespace troupe
