// Which algorithm sums: by length and world size alone, so that all ranks agree.
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe {
namespace {

SliceOwners all_ranks(Span<std::byte> values, int world_size) {
  SliceOwners owners;
  for (int rank = 0; rank < world_size; ++rank) {
    owners.push_back({rank, slice_of(values, world_size, rank)});
  }
  return owners;
}

}  // namespace

void two_level_allreduce(Call& call, Span<std::byte> values, const Reduction& sum, int group_size) {
  const int world_size = call.world_size();
  SliceOwners group;
  for (const int rank : group_of(call.rank(), group_size, world_size)) {
    const OwnedSlices owned = owned_slices(rank, group_size, world_size);
    group.push_back({rank, slices_of(values, group_size, owned.begin, owned.end)});
  }
  direct_reduce_scatter(call, group, sum);
  const OwnedSlices mine = owned_slices(call.rank(), group_size, world_size);
  for (int index = mine.begin; index < mine.end; ++index) {
    const Span<std::byte> slice = slice_of(values, group_size, index);
    const std::vector<int> ranks = slice_owners(index, group_size, world_size);
    SliceOwners across;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto parts = static_cast<int>(ranks.size());
      across.push_back({ranks[i], slice_of(slice, parts, static_cast<int>(i))});
    }
    direct_allreduce(call, across, sum);
  }
  direct_all_gather(call, group, sum);
}

SumRoute route_of(std::size_t bytes, int world_size) {
  if (bytes <= kDoublingMaxBytes) return SumRoute::doubling;
  return world_size <= kMaxMesh ? SumRoute::direct : SumRoute::two_level;
}

void all_reduce(Call& call, Span<std::byte> values, const Reduction& sum,
                const GroupOptions& options) {
  const int world_size = call.world_size();
  SumRoute route = options.sum_route;
  if (route == SumRoute::automatic) route = route_of(values.size(), world_size);
  switch (route) {
    case SumRoute::automatic:
    case SumRoute::doubling:
      return doubling_allreduce(call, values, sum);
    case SumRoute::direct:
      return direct_allreduce(call, all_ranks(values, world_size), sum);
    case SumRoute::two_level:
      return two_level_allreduce(call, values, sum, group_size_for(world_size, options.group_size));
  }
}

}  // namespace troupe
