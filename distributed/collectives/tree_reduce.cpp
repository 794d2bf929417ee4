// Tree towards the root: where branches are joined in pairs, one rank of each holds its sum, and
// those are partners; on the way up from `root` to the whole tree the root holds every branch that
// it is in.
#include "distributed/collectives/adding_sink.h"
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe {
namespace {

// To whom this rank gives its sum, and of how large a branch; the root keeps it: `to` is -1.
struct Duty {
  int to = -1;
  int branch = 1;
};

Duty duty_of(int rank, int root, int world_size) {
  int branch = 1;
  while (branch < world_size) branch *= 2;
  Duty duty{-1, branch};
  // Down the tree: who holds the branch that this rank is in?
  for (int holder = root; branch > 1;) {
    branch /= 2;
    if (holder / branch == rank / branch) continue;
    duty = {holder, branch};
    holder = partner_of(holder, branch, world_size);
  }
  return duty;
}

}  // namespace

void tree_reduce(Call& call, Span<std::byte> values, int root, const Reduction& sum) {
  const int rank = call.rank();
  const Duty duty = duty_of(rank, root, call.world_size());
  const AddingSink::Add add = [&sum](std::byte* into, const std::byte* from, std::size_t count) {
    add_to(into, from, count, sum);
  };
  for (int branch = 1; branch < duty.branch; branch *= 2) {
    const int partner = partner_of(rank, branch, call.world_size());
    if (partner < 0) continue;
    AddingSink sink(values, sum.element_bytes, call.scratch(), add);
    call.receive_from(partner, values.size()).expect(values.size(), sink);
    call.run();
  }
  if (duty.to < 0) return;
  call.send_to(duty.to, values.size()).append(values);
  call.run();
}

}  // namespace troupe
