// The ring: values are cut into W chunks. In step s of 2(W-1), rank r sends chunk r-s to r+1 and
// receives chunk r-s-1 from r-1; the first W-1 steps add what arrives, the others replace it. After
// the first half rank r holds the whole sum of chunk r+1. All steps of one rank are one message to
// the next rank: what step s receives is what step s+1 sends.
#include "distributed/collectives/collectives.h"
#include "distributed/collectives/topology.h"

namespace troupe {

void ring_allreduce(Call& call, Span<std::byte> values, std::size_t element_bytes,
                    const AddingSink::Add& add) {
  const int world_size = call.world_size();
  const int rank = call.rank();
  const int steps = 2 * (world_size - 1);
  const auto chunk = [&](int index) {
    return slice_of(values, world_size, (index % world_size + world_size) % world_size);
  };

  std::uint64_t to_send = 0;
  std::uint64_t to_receive = 0;
  for (int step = 0; step < steps; ++step) {
    to_send += chunk(rank - step).size();
    to_receive += chunk(rank - step - 1).size();
  }
  SendStream& next = call.send_to((rank + 1) % world_size, to_send);
  ReceiveStream& previous = call.receive_from((rank + world_size - 1) % world_size, to_receive);
  previous.forward_to(next);
  next.append(chunk(rank));
  std::vector<AddingSink> sums;
  sums.reserve(static_cast<std::size_t>(world_size));
  for (int step = 0; step < steps; ++step) {
    const Span<std::byte> received = chunk(rank - step - 1);
    if (step < world_size - 1) {
      sums.emplace_back(received, element_bytes, call.scratch(), add, &next);
      previous.expect(received.size(), sums.back());
    } else {
      previous.expect(received, step + 1 < steps ? Forward::yes : Forward::no);
    }
  }
  call.run();
}

}  // namespace troupe
