// Binomial tree: with ranks counted from the root, a rank receives from the rank without its lowest
// set bit and sends to those that set one of the bits below it, the farthest first.
#include "distributed/collectives/collectives.h"

namespace troupe {

void tree_broadcast(Call& call, Span<std::byte> bytes, int root) {
  const int world_size = call.world_size();
  const int from_root = (call.rank() - root + world_size) % world_size;
  int lowest = 1;  // the lowest set bit, or the first power of two >= W at the root
  while (lowest < world_size && (from_root & lowest) == 0) lowest *= 2;

  std::vector<SendStream*> children;
  for (int distance = lowest / 2; distance >= 1; distance /= 2) {
    if (from_root + distance >= world_size) continue;
    children.push_back(&call.send_to((from_root + distance + root) % world_size, bytes.size()));
  }
  if (from_root == 0) {
    for (SendStream* child : children) child->append(bytes);
    return call.run();
  }
  ReceiveStream& in = call.receive_from((from_root - lowest + root) % world_size, bytes.size());
  for (SendStream* child : children) in.forward_to(*child);
  in.expect(bytes, Forward::yes);
  call.run();
}

}  // namespace troupe
