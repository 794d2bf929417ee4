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

constexpr std::size_t kElementBytes = sizeof(std::uint16_t);

// A chunk whose sums with what arrives are rounded, and sent on.
class AddingSink final : public Sink {
 public:
  /// Arriving bytes wait in `scratch`, which sinks of one message may share.
  AddingSink(const CompressedValues& chunk, const Rounding& rounding, Span<std::byte> scratch,
             SendStream& to)
      : chunk_(chunk), rounding_(&rounding), scratch_(scratch), to_(&to) {}

  [[nodiscard]] Span<std::byte> room() override {
    const std::size_t left = (chunk_.wire.size() - done_) * kElementBytes;
    return scratch_.subspan(carried_, std::min(scratch_.size(), left) - carried_);
  }
  void take(std::size_t bytes) override {
    const std::size_t have = carried_ + bytes;
    const std::size_t count = have / kElementBytes;
    const Span<std::uint16_t> sums = chunk_.wire.subspan(done_, count);
    rounding_->add_and_round(chunk_.values.data() + done_, chunk_.errors.data() + done_,
                             reinterpret_cast<const std::uint16_t*>(scratch_.data()), sums.data(),
                             count);
    carried_ = have % kElementBytes;
    if (carried_ > 0) scratch_[0] = scratch_[have - 1];
    to_->append(as_bytes(sums));
    done_ += count;
  }

 private:
  CompressedValues chunk_;
  const Rounding* rounding_;
  Span<std::byte> scratch_;
  SendStream* to_;
  std::size_t done_ = 0;     // values that are sums
  std::size_t carried_ = 0;  // bytes of an incomplete value at the front of scratch_
};

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

// What a rank sends on is its own float values plus what came, added in float and rounded once;
// what the rounding took stays with the rank in `errors`. Every element is rounded once on every
// rank: when its own chunk starts, or when it adds to what came; the last to add rounds the whole
// sum, and all take these bits. So, over all ranks and up to the float additions' own rounding:
// values before + errors before = values after + errors after.
//
// Values are cut into W chunks, and there are 2(W-1) steps; the first W-1 add what arrives, the
// others replace it. After the first half rank r holds the whole sum of chunk r+1.
void compressed_allreduce(Call& call, const CompressedValues& buffers, const Rounding& rounding) {
  TROUPE_CHECK_EQ(buffers.values.size(), buffers.errors.size());
  TROUPE_CHECK_EQ(buffers.values.size(), buffers.wire.size());
  const int world_size = call.world_size();
  const Span<std::byte> bytes = as_writable_bytes(buffers.wire);
  const auto values_of = [&](Span<std::byte> chunk) -> CompressedValues {
    const auto first = static_cast<std::size_t>(chunk.data() - bytes.data()) / kElementBytes;
    const std::size_t count = chunk.size() / kElementBytes;
    return {buffers.values.subspan(first, count), buffers.errors.subspan(first, count),
            buffers.wire.subspan(first, count)};
  };
  std::vector<Span<std::byte>> chunks;
  for (int rank = 0; rank < world_size; ++rank) {
    chunks.push_back(slice_of(bytes, world_size, rank));
  }
  const CompressedValues own = values_of(chunks[static_cast<std::size_t>(call.rank())]);
  rounding.round(own.values.data(), own.errors.data(), own.wire.data(), own.wire.size());
  std::vector<AddingSink> sums;
  sums.reserve(chunks.size());
  run_ring(call, chunks, 2 * (world_size - 1),
           [&](int step, Span<std::byte> received, ReceiveStream& from, SendStream& to) {
             if (step >= world_size - 1) return false;
             sums.emplace_back(values_of(received), rounding, call.scratch(), to);
             from.expect(received.size(), sums.back());
             return true;
           });
  rounding.widen(buffers.wire.data(), buffers.values.data(), buffers.wire.size());
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
