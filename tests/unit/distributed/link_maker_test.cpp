#include "distributed/link_maker.h"

#include <algorithm>

#include "tests/support/test_prelude.h"

TEST_SUITE("distributed") {
  TEST_CASE("linked_ranks: links are mutual, and hold the ring and every power of two") {
    for (int world_size = 1; world_size <= 17; ++world_size) {
      for (int rank = 0; rank < world_size; ++rank) {
        const auto peers = troupe::linked_ranks(rank, world_size);
        CHECK(std::is_sorted(peers.begin(), peers.end()));
        CHECK(std::count(peers.begin(), peers.end(), rank) == 0);
        for (const int peer : peers) {
          const auto back = troupe::linked_ranks(peer, world_size);
          CHECK(std::binary_search(back.begin(), back.end(), rank));
        }
        for (int distance = 1; distance < world_size; distance *= 2) {
          CHECK(std::binary_search(peers.begin(), peers.end(), (rank + distance) % world_size));
        }
      }
    }
  }
}
