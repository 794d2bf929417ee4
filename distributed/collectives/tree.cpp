// The binomial trees, away from a root and towards it, and the barrier.
#include <algorithm>

#include "troupe/distributed/collectives/collectives.h"

namespace troupe {
namespace {

/// One piece of every rank's bytes. At rank 0 `into` has their places by rank; elsewhere its
/// lengths count.
void gather_pieces(Call& call, Span<const std::byte> mine,
                   const std::vector<Span<std::byte>>& into) {
  const int rank = call.rank();
  for (int from = 1; from < call.world_size(); ++from) {
    const std::size_t bytes = into[static_cast<std::size_t>(from)].size();
    int last = from;  // that had the piece before this rank
    int at = from;
    while (at != rank && at != 0) {
      last = at;
      at &= at - 1;
    }
    if (at != rank || bytes == 0) continue;  // this rank is not on the way
    SendStream* const next = rank == 0 ? nullptr : &call.send_to(rank & (rank - 1), bytes);
    if (from == rank) {
      next->append(mine);
      next->seal();
    } else {
      ReceiveStream& previous = call.receive_from(last, bytes);
      if (next != nullptr) previous.forward_to(*next);
      previous.expect(
          next == nullptr ? into[static_cast<std::size_t>(from)] : call.scratch().subspan(0, bytes),
          next == nullptr ? Forward::no : Forward::yes);
      previous.expect_seal([next] {
        if (next != nullptr) next->seal();
      });
    }
    call.run();
  }
}

}  // namespace

// With ranks counted from the root, a rank receives from the rank without its lowest set bit and
// sends to those that set one of the bits below it, the farthest first.
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
    for (SendStream* child : children) {
      child->append(bytes);
      child->seal();
    }
    return call.run();
  }
  ReceiveStream& in = call.receive_from((from_root - lowest + root) % world_size, bytes.size());
  for (SendStream* child : children) in.forward_to(*child);
  in.expect(bytes, Forward::yes);
  in.expect_seal([&children] {
    for (SendStream* child : children) child->seal();
  });
  call.run();
}

// One rank's piece after the other: each rank on the way clears its lowest set bit to find the
// next, and sends on what it has while the rest arrives. What is not rank 0's own passes through
// the scratch, so no rank but rank 0 needs memory for others.
std::vector<std::vector<std::byte>> tree_gather(const std::function<Call(const Deadline&)>& enter,
                                                Span<const std::byte> mine,
                                                std::chrono::milliseconds limit) {
  std::vector<std::uint64_t> lengths;
  int rank = 0;
  {
    const Deadline deadline = Deadline::in(limit);
    Call call = enter(deadline);
    rank = call.rank();
    const std::uint64_t length = mine.size();
    for (const auto& bytes :
         ring_all_gather(call, as_bytes(Span<const std::uint64_t>(&length, 1)), sizeof length)) {
      lengths.emplace_back();
      std::copy(bytes.begin(), bytes.end(),
                as_writable_bytes(Span<std::uint64_t>(&lengths.back(), 1)).begin());
    }
  }
  std::vector<std::vector<std::byte>> gathered(rank == 0 ? lengths.size() : 0);
  for (std::size_t i = 0; i < gathered.size(); ++i) gathered[i].resize(lengths[i]);
  if (rank == 0) std::copy(mine.begin(), mine.end(), gathered[0].begin());

  const std::uint64_t longest = *std::max_element(lengths.begin() + 1, lengths.end());
  std::vector<Span<std::byte>> pieces(lengths.size());
  for (std::uint64_t begin = 0; begin < longest; begin += kScratchBytes) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::uint64_t at = std::min(begin, lengths[i]);
      pieces[i] = {rank == 0 ? gathered[i].data() + at : nullptr,
                   std::min<std::uint64_t>(lengths[i] - at, kScratchBytes)};
    }
    const std::size_t own = pieces[static_cast<std::size_t>(rank)].size();
    const Deadline deadline = Deadline::in(limit);
    Call call = enter(deadline);
    gather_pieces(call, mine.subspan(std::min<std::uint64_t>(begin, mine.size()), own), pieces);
  }
  return gathered;
}

// In round k rank r tells r + 2^k that it is here and hears from r - 2^k; after
// ceil(log2(W)) rounds every rank has heard, directly or not, from all.
void dissemination_barrier(Call& call) {
  const int world_size = call.world_size();
  for (int distance = 1; distance < world_size; distance *= 2) {
    call.send_to((call.rank() + distance) % world_size, 0);
    call.receive_from((call.rank() - distance + world_size) % world_size, 0);
    call.run();
  }
}

}  // namespace troupe
