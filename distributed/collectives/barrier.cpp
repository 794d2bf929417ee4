// Dissemination: in round k rank r tells r + 2^k that it is here and hears from r - 2^k; after
// ceil(log2(W)) rounds every rank has heard, directly or not, from all.
#include "distributed/collectives/collectives.h"

namespace troupe {

void dissemination_barrier(Call& call) {
  const int world_size = call.world_size();
  for (int distance = 1; distance < world_size; distance *= 2) {
    call.send_to((call.rank() + distance) % world_size, 0);
    call.receive_from((call.rank() - distance + world_size) % world_size, 0);
    call.run();
  }
}

}  // namespace troupe
