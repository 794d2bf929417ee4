// All-gather around the ring, twice: once the 8-byte lengths, then the blocks. Rank r sends block
// r-s in step s and receives block r-s-1; what step s receives is what step s+1 sends.
#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "distributed/collectives/collectives.h"

namespace troupe {
namespace {

// `blocks` by rank: this rank's is filled in, the others have their size.
void gather_blocks(Call& call, const std::vector<Span<std::byte>>& blocks) {
  const int world_size = call.world_size();
  const int rank = call.rank();
  const auto block = [&](int index) {
    return blocks[static_cast<std::size_t>((index + world_size) % world_size)];
  };
  std::uint64_t to_send = 0;
  std::uint64_t to_receive = 0;
  for (int step = 0; step < world_size - 1; ++step) {
    to_send += block(rank - step).size();
    to_receive += block(rank - step - 1).size();
  }
  SendStream& next = call.send_to((rank + 1) % world_size, to_send);
  ReceiveStream& previous = call.receive_from((rank + world_size - 1) % world_size, to_receive);
  previous.forward_to(next);
  next.append(block(rank));
  for (int step = 0; step < world_size - 1; ++step) {
    previous.expect(block(rank - step - 1), step + 2 < world_size ? Forward::yes : Forward::no);
  }
  call.run();
}

}  // namespace

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
  gather_blocks(call, blocks);

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
  gather_blocks(call, blocks);
  return gathered;
}

}  // namespace troupe
