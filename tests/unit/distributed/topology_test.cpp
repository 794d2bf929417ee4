#include "troupe/distributed/group/topology.h"

#include <algorithm>
#include <vector>

#include "tests/support/test_prelude.h"

namespace {

using namespace troupe;  // NOLINT: a test

bool linked(int rank, int peer, int world_size, int group_size) {
  const auto peers = linked_ranks(rank, world_size, group_size);
  return std::binary_search(peers.begin(), peers.end(), peer);
}

}  // namespace

TEST_SUITE("distributed") {
  TEST_CASE("linked_ranks: links are mutual, and hold what every algorithm uses") {
    for (const int wanted : {0, 1, 2, 4, 64}) {
      for (int world_size = 1; world_size <= 40; ++world_size) {
        const int size = group_size_for(world_size, wanted);
        bool all = true;
        const auto check = [&](int rank, int peer) {
          all = all && (rank == peer || (linked(rank, peer, world_size, size) &&
                                         linked(peer, rank, world_size, size)));
        };
        for (int rank = 0; rank < world_size; ++rank) {
          const auto peers = linked_ranks(rank, world_size, size);
          CHECK(std::is_sorted(peers.begin(), peers.end()));
          CHECK(std::count(peers.begin(), peers.end(), rank) == 0);
          if (world_size <= kMaxMesh)
            CHECK(peers.size() + 1 == static_cast<std::size_t>(world_size));
          for (const int peer : peers) check(rank, peer);
          for (int distance = 1; distance < world_size; distance *= 2) {
            check(rank, (rank + distance) % world_size);
          }
          for (const TreeCut::Join& join : TreeCut(world_size).joins_of(rank)) {
            check(rank, partner_of(rank, join));
          }
          for (const int peer : group_of(rank, size, world_size)) check(rank, peer);
          const OwnedSlices own = owned_slices(rank, size, world_size);
          for (int slice = own.begin; slice < own.end; ++slice) {
            for (const int peer : slice_owners(slice, size, world_size)) check(rank, peer);
          }
        }
        CAPTURE(world_size);
        CAPTURE(size);
        CHECK(all);
      }
    }
  }

  TEST_CASE("partner_of: who takes from whom and who gives to whom is the same") {
    for (int lower = 1; lower <= 20; ++lower) {
      for (int upper = 1; upper <= 20; ++upper) {
        const TreeCut::Join join{3, 3 + lower, 3 + lower + upper};
        std::vector<int> taken_from(static_cast<std::size_t>(join.last), -1);
        for (int rank = join.first; rank < join.last; ++rank) {
          const Served served = served_by(rank, join);
          for (int peer = served.begin; peer < served.end; peer += served.step) {
            CHECK(taken_from[static_cast<std::size_t>(peer)] == -1);
            taken_from[static_cast<std::size_t>(peer)] = rank;
          }
        }
        for (int rank = join.first; rank < join.last; ++rank) {
          const int partner = partner_of(rank, join);
          CHECK(partner == taken_from[static_cast<std::size_t>(rank)]);
          CHECK((rank < join.middle) != (partner < join.middle));
        }
      }
    }
  }

  TEST_CASE("owned_slices: every slice has one owner in every group") {
    for (const int size : {1, 2, 4, 8}) {
      for (int world_size = 1; world_size <= 40; ++world_size) {
        for (int slice = 0; slice < size; ++slice) {
          std::vector<int> owners;
          for (int rank = 0; rank < world_size; ++rank) {
            const OwnedSlices own = owned_slices(rank, size, world_size);
            if (own.begin <= slice && slice < own.end) owners.push_back(rank);
          }
          CHECK(owners == slice_owners(slice, size, world_size));
          CHECK(owners.size() == static_cast<std::size_t>((world_size + size - 1) / size));
        }
      }
    }
  }
}
