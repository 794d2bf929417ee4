// How ranks sum, and which algorithm does: by length and world size alone, so that all agree.
#include "troupe/core/check.h"
#include "troupe/distributed/collectives/collectives.h"
#include "troupe/distributed/group/topology.h"

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

// Recursive doubling: where branches of the tree are joined, a rank takes the other branch's sum
// from its partner and adds it; a + b and b + a round alike, so both sides get the same bits. Ranks
// of a smaller branch serve several of the other one.
void doubling_allreduce(Call& call, Span<std::byte> values, const Reduction& sum,
                        const TreeCut& cut) {
  TROUPE_CHECK(values.size() <= kScratchBytes);
  const int rank = call.rank();
  const Span<std::byte> theirs = call.scratch().subspan(0, values.size());
  for (const TreeCut::Join& join : cut.joins_of(rank)) {
    const int partner = partner_of(rank, join);
    const Served served = served_by(rank, join);
    for (int peer = served.begin; peer < served.end; peer += served.step) {
      SendStream& out = call.send_to(peer, values.size());
      out.append(values);
      out.seal();
    }
    ReceiveStream& in = call.receive_from(partner, values.size());
    in.expect(theirs);
    in.expect_seal();
    call.run();
    const std::byte* const both[] = {values.data(), theirs.data()};
    sum.add(values.data(), both, 2, values.size() / sum.element_bytes);
  }
}

void two_level_allreduce(Call& call, Span<std::byte> values, const Reduction& sum, int group_size) {
  const int world_size = call.world_size();
  SliceOwners group;
  for (const int rank : group_of(call.rank(), group_size, world_size)) {
    const OwnedSlices owned = owned_slices(rank, group_size, world_size);
    group.push_back({rank, slices_of(values, group_size, owned.begin, owned.end)});
  }
  const TreeCut inside(static_cast<int>(group.size()));
  direct_allreduce(call, group, sum, inside, Half::slices);
  const OwnedSlices mine = owned_slices(call.rank(), group_size, world_size);
  for (int index = mine.begin; index < mine.end; ++index) {
    const Span<std::byte> slice = slice_of(values, group_size, index);
    const std::vector<int> ranks = slice_owners(index, group_size, world_size);
    SliceOwners across;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto parts = static_cast<int>(ranks.size());
      across.push_back({ranks[i], slice_of(slice, parts, static_cast<int>(i))});
    }
    direct_allreduce(call, across, sum, TreeCut(static_cast<int>(across.size())));
  }
  direct_allreduce(call, group, sum, inside, Half::sums);
}

detail::SumRoute route_of(std::size_t bytes, int world_size) {
  if (bytes <= kDoublingMaxBytes) return detail::SumRoute::doubling;
  return world_size <= kMaxMesh ? detail::SumRoute::direct : detail::SumRoute::two_level;
}

void all_reduce(Call& call, Span<std::byte> values, const Reduction& sum,
                const GroupOptions& options, const TreeCut& cut) {
  const int world_size = call.world_size();
  detail::SumRoute route = options.sum_route;
  if (route == detail::SumRoute::automatic) route = route_of(values.size(), world_size);
  switch (route) {
    case detail::SumRoute::automatic:
    case detail::SumRoute::doubling:
      return doubling_allreduce(call, values, sum, cut);
    case detail::SumRoute::direct:
      return direct_allreduce(call, all_ranks(values, world_size), sum, cut);
    case detail::SumRoute::two_level:
      return two_level_allreduce(call, values, sum, group_size_for(world_size, options.group_size));
  }
}

}  // namespace troupe
