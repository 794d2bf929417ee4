// The ring: in step s, rank r sends part r-s to r+1 and receives part r-s-1 from r-1. All steps of
// one rank are one message to the next rank: what step s receives is what step s+1 sends. Each part
// has its seal, given on when that of the step before has come: one seal for the whole message
// would wait for itself around the ring.
#include <algorithm>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/distributed/collectives/collectives.h"
#include "troupe/distributed/group/topology.h"

namespace troupe {
namespace {

// `parts` by rank: what this rank's message starts with is filled in. `take` says of what a step
// receives whether it has seen to it; else that is stored in its part and sent on.
template <class Take>
void run_ring(Call& call, const std::vector<Span<std::byte>>& parts, int steps, const Take& take) {
  const int world_size = call.world_size();
  const int rank = call.rank();
  const auto part = [&](int index) {
    return parts[static_cast<std::size_t>((index % world_size + world_size) % world_size)];
  };
  std::uint64_t to_send = 0;
  std::uint64_t to_receive = 0;
  for (int step = 0; step < steps; ++step) {
    to_send += part(rank - step).size();
    to_receive += part(rank - step - 1).size();
  }
  SendStream& next = call.send_to((rank + 1) % world_size, to_send);
  ReceiveStream& previous = call.receive_from((rank + world_size - 1) % world_size, to_receive);
  previous.forward_to(next);
  next.append(part(rank));
  next.seal();
  for (int step = 0; step < steps; ++step) {
    const Span<std::byte> received = part(rank - step - 1);
    const bool is_last = step + 1 == steps;
    if (!take(step, received, previous, next)) {
      previous.expect(received, is_last ? Forward::no : Forward::yes);
    }
    previous.expect_seal([&next, is_last] {
      if (!is_last) next.seal();
    });
  }
  call.run();
}

}  // namespace

// W-1 steps: every rank ends with every part.
void ring_all_gather(Call& call, const std::vector<Span<std::byte>>& parts) {
  run_ring(call, parts, call.world_size() - 1,
           [](int, Span<std::byte>, ReceiveStream&, SendStream&) { return false; });
}

// Values are cut into W chunks, and there are 2(W-1) steps; the first W-1 add what arrives, the
// others replace it. After the first half rank r holds the whole sum of chunk r+1.
void ring_allreduce(Call& call, Span<std::byte> values, std::size_t element_bytes,
                    const AddingSink::Add& add) {
  const int world_size = call.world_size();
  std::vector<Span<std::byte>> chunks;
  for (int rank = 0; rank < world_size; ++rank) {
    chunks.push_back(slice_of(values, world_size, rank));
  }
  std::vector<AddingSink> sums;
  sums.reserve(chunks.size());
  run_ring(call, chunks, 2 * (world_size - 1),
           [&](int step, Span<std::byte> received, ReceiveStream& from, SendStream& to) {
             if (step >= world_size - 1) return false;
             sums.emplace_back(received, element_bytes, call.scratch(), add, &to);
             from.expect(received.size(), sums.back());
             return true;
           });
}

// The ring over 16-bit values. What a rank sends on is its own float values plus what came, added
// in float and rounded once; what the rounding took stays with the rank in `errors`. Every element
// is rounded once on every rank: when its own chunk starts, or when it adds to what came; the last
// to add rounds the whole sum, and all take these bits. So, over all ranks and up to the float
// additions' own rounding: values before + errors before = values after + errors after.
void compressed_allreduce(Call& call, const CompressedValues& buffers, const Rounding& rounding) {
  // Not a structured binding: before C++20 a lambda cannot capture one.
  const auto values = buffers.values;
  const auto errors = buffers.errors;
  const auto wire = buffers.wire;
  TROUPE_CHECK_EQ(values.size(), errors.size());
  TROUPE_CHECK_EQ(values.size(), wire.size());
  const Span<std::byte> bytes = as_writable_bytes(wire);
  const auto index_of = [&](const std::byte* at) {
    return static_cast<std::size_t>(at - bytes.data()) / sizeof(std::uint16_t);
  };
  const Span<std::byte> own = slice_of(bytes, call.world_size(), call.rank());
  const std::size_t first = index_of(own.data());
  rounding.round(values.data() + first, errors.data() + first, wire.data() + first,
                 own.size() / sizeof(std::uint16_t));
  const AddingSink::Add add = [&](std::byte* into, const std::byte* from, std::size_t count) {
    const std::size_t at = index_of(into);
    rounding.add_and_round(values.data() + at, errors.data() + at,
                           reinterpret_cast<const std::uint16_t*>(from), wire.data() + at, count);
  };
  ring_allreduce(call, bytes, sizeof(std::uint16_t), add);
  rounding.widen(wire.data(), values.data(), wire.size());
}

// Twice around the ring: once the 8-byte lengths, then the blocks.
std::vector<std::vector<std::byte>> ring_all_gather(Call& call, Span<const std::byte> mine,
                                                    std::size_t max_bytes) {
  const auto count = static_cast<std::size_t>(call.world_size());
  const auto rank = static_cast<std::size_t>(call.rank());
  std::vector<std::uint64_t> lengths(count, 0);
  lengths[rank] = mine.size();
  std::vector<Span<std::byte>> blocks;
  for (std::uint64_t& length : lengths) {
    blocks.push_back(as_writable_bytes(Span<std::uint64_t>(&length, 1)));
  }
  ring_all_gather(call, blocks);

  const auto too_long =
      std::find_if(lengths.begin(), lengths.end(), [&](auto n) { return n > max_bytes; });
  if (too_long != lengths.end()) {  // on every rank alike: all know all lengths
    throw ConfigError(text("all_gather of ", *too_long, " bytes from rank ",
                           too_long - lengths.begin(), " (limit ", max_bytes, ")."),
                      "gather in smaller pieces.");
  }
  std::vector<std::vector<std::byte>> gathered(count);
  for (std::size_t i = 0; i < count; ++i) {
    gathered[i].resize(lengths[i]);
    blocks[i] = {gathered[i].data(), gathered[i].size()};
  }
  std::copy(mine.begin(), mine.end(), gathered[rank].begin());
  ring_all_gather(call, blocks);
  return gathered;
}

}  // namespace troupe
