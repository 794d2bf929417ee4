// The ring: values are cut into W chunks. In step s of 2(W-1), rank r sends chunk r-s to r+1 and
// receives chunk r-s-1 from r-1; the first W-1 steps add what arrives, the others replace it. After
// the first half rank r holds the whole sum of chunk r+1. All steps of one rank are one message to
// the next rank: what step s receives is what step s+1 sends.
#include <algorithm>

#include "distributed/collectives.h"

namespace troupe {
namespace {

// Chunks begin at a cache line, so that no two are added to in the same one and loops vectorise.
constexpr std::size_t kChunkAlignment = 64;

}  // namespace

Span<std::byte> ring_chunk(Span<std::byte> values, int world_size, int index) {
  const auto parts = static_cast<std::size_t>(world_size);
  const std::size_t fair = (values.size() + parts - 1) / parts;
  const std::size_t stride = (fair + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
  const auto i = static_cast<std::size_t>((index % world_size + world_size) % world_size);
  const std::size_t begin = std::min(values.size(), stride * i);
  return values.subspan(begin, std::min(values.size(), begin + stride) - begin);
}

void ring_allreduce(Call& call, Span<std::byte> values, const Adder& sum) {
  const int world_size = call.world_size();
  const int rank = call.rank();
  const int steps = 2 * (world_size - 1);
  const auto chunk = [&](int index) { return ring_chunk(values, world_size, index); };

  std::uint64_t to_send = 0;
  std::uint64_t to_receive = 0;
  for (int step = 0; step < steps; ++step) {
    to_send += chunk(rank - step).size();
    to_receive += chunk(rank - step - 1).size();
  }
  SendStream next = call.send_to((rank + 1) % world_size, to_send);
  ReceiveStream previous = call.receive_from((rank + world_size - 1) % world_size, to_receive);
  previous.forward_to(next);
  next.append(chunk(rank));
  for (int step = 0; step < steps; ++step) {
    previous.expect(chunk(rank - step - 1), step < world_size - 1 ? &sum : nullptr,
                    step + 1 < steps ? Forward::yes : Forward::no);
  }
  call.run({&next}, {&previous});
}

}  // namespace troupe
