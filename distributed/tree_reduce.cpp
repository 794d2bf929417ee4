// Binomial tree: with ranks counted from the root, a rank adds its children at distance 1, 2, 4,
// ... in that order, then gives the sum to the rank without its lowest set bit.
#include "distributed/collectives.h"

namespace troupe {

void tree_reduce(Call& call, Span<std::byte> values, int root, const Reduction& sum) {
  const int world_size = call.world_size();
  const Adder adder = adder_of(sum);
  const int from_root = (call.rank() - root + world_size) % world_size;
  for (int distance = 1; distance < world_size; distance *= 2) {
    if ((from_root & distance) != 0) {
      const int parent = (from_root - distance + root) % world_size;
      SendStream out = call.send_to(parent, values.size());
      out.append(values);
      return call.run({&out}, {});
    }
    if (from_root + distance >= world_size) continue;
    ReceiveStream in = call.receive_from((from_root + distance + root) % world_size, values.size());
    in.expect(values, &adder, Forward::no);
    call.run({}, {&in});
  }
}

}  // namespace troupe
