// Recursive doubling: where branches of the tree are joined in pairs, a rank takes the other
// branch's sum from its partner and adds it; a + b and b + a round alike, so both sides get the
// same bits. Ranks of a short branch serve several of the other one.
#include "core/check.h"
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe {

void doubling_allreduce(Call& call, Span<std::byte> values, const Reduction& sum) {
  TROUPE_CHECK(values.size() <= kScratchBytes);
  const int rank = call.rank();
  const int world_size = call.world_size();
  const Span<std::byte> theirs = call.scratch().subspan(0, values.size());
  for (int branch = 1; branch < world_size; branch *= 2) {
    const int partner = partner_of(rank, branch, world_size);
    if (partner < 0) continue;  // this branch is the whole sum so far
    const Served served = served_by(rank, branch, world_size);
    for (int peer = served.begin; peer < served.end; peer += served.step) {
      call.send_to(peer, values.size()).append(values);
    }
    call.receive_from(partner, values.size()).expect(theirs);
    call.run();
    add_to(values.data(), theirs.data(), values.size() / sum.element_bytes, sum);
  }
}

}  // namespace troupe
