// The algorithms behind WorkerGroup's collectives; docs/algorithms.md has steps and costs.
//
// Words: W is the world size, r this rank. A *slice* is what one rank sums for others (in a ring: a
// *chunk*); a *round* is one exchange of recursive doubling or of a tree. Every sum is added in the
// order of a TreeCut whose parts are the ranks, or the owners of a slice, so all algorithms give
// the same bits.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/distributed/collectives/call.h"
#include "troupe/distributed/collectives/reduction.h"
#include "troupe/distributed/collectives/rounding.h"
#include "troupe/distributed/collectives/stream.h"

namespace troupe {

/// Up to here recursive doubling is faster than direct reduction; it needs as much scratch.
/// Source: 128 KiB, loopback TCP, two cores: 67 us against 70 us for W = 2, 177 us against 124 us
/// for W = 3, 248 us against 299 us for W = 4; 256 KiB: 121 against 114, 274 against 214, 504
/// against 586.
inline constexpr std::size_t kDoublingMaxBytes = std::size_t{128} * 1024;

/// Sum on all ranks by the algorithm that is fastest for this length and world size, or by
/// options.sum_route.
void all_reduce(Call& call, Span<std::byte> values, const Reduction& sum,
                const GroupOptions& options, const TreeCut& cut);
/// What `automatic` chooses.
[[nodiscard]] detail::SumRoute route_of(std::size_t bytes, int world_size);

/// Sum on all ranks in as many rounds of all bytes as the tree above the cut is high, ceil(log2(W))
/// in rank order.  Shapes: values at most kScratchBytes.
/// Source: Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
void doubling_allreduce(Call& call, Span<std::byte> values, const Reduction& sum,
                        const TreeCut& cut);

/// A rank and the values that it sums; both empty and short slices are allowed.
struct SliceOwner {
  int rank;
  Span<std::byte> slice;
};
/// In rank order; this rank is one of them, and they are linked with each other.
using SliceOwners = std::vector<SliceOwner>;

/// All of a direct all-reduce, or its first half: every owner ends with its own slice's sums; or
/// its second one: every owner's slice goes to all others.
enum class Half { both, slices, sums };
/// Sums all slices over their owners; every owner ends with all sums.
/// Cost: one message of 2/W of the values each way and peer.
/// Source: Rabenseifner 2004, "Optimization of collective reduction operations" (reduce-scatter,
/// then all-gather); here both are one exchange between all, and streamed.
void direct_allreduce(Call& call, const SliceOwners& owners, const Reduction& sum,
                      const TreeCut& cut, Half half = Half::both);

/// Sum on all ranks: reduce-scatter inside groups of `group_size` (a power of two), each slice over
/// the groups, all-gather inside. In rank order only.
/// Source: Jia et al. 2018, "Highly scalable deep learning training system with mixed-precision:
/// training ImageNet in four minutes" (hierarchical all-reduce).
void two_level_allreduce(Call& call, Span<std::byte> values, const Reduction& sum, int group_size);

/// Shapes: all [n].
struct CompressedValues {
  Span<float> values;
  Span<float> errors;
  Span<std::uint16_t> wire;  // working memory
};

/// Sum on all ranks around the ring with 16 bits per value (see WorkerGroup::all_reduce):
/// reduce-scatter, then all-gather; 2(W-1) chunks of n/W, sent on as soon as they are summed. Not
/// in rank order.
/// Source: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations"; Seide et al. 2014, "1-bit stochastic gradient descent and its application to
/// data-parallel distributed training of speech DNNs"; Karimireddy et al. 2019, "Error feedback
/// fixes SignSGD and other gradient compression schemes".
void compressed_allreduce(Call& call, const CompressedValues& buffers, const Rounding& rounding);

/// Binomial tree from the root; a rank sends on what it has while the rest arrives.
void tree_broadcast(Call& call, Span<std::byte> bytes, int root);

/// Every rank's block to every rank, around the ring: lengths first, then blocks.
/// Throws: ConfigError when some rank's block exceeds `max_bytes`.
[[nodiscard]] std::vector<std::vector<std::byte>> ring_all_gather(Call& call,
                                                                  Span<const std::byte> mine,
                                                                  std::size_t max_bytes);

/// Every rank's part to every rank, around the ring, in place.  Shapes: `parts` by rank, as long on
/// every rank.
void ring_all_gather(Call& call, const std::vector<Span<std::byte>>& parts);

/// Every rank's bytes at rank 0, by rank; elsewhere nothing. Up a binomial tree in pieces of
/// kScratchBytes, each a call of its own that may take `limit`.
[[nodiscard]] std::vector<std::vector<std::byte>> tree_gather(
    const std::function<Call(const Deadline&)>& enter, Span<const std::byte> mine,
    std::chrono::milliseconds limit);

/// Dissemination barrier: ceil(log2(W)) rounds.
/// Source: Hensgen, Finkel & Manber 1988, "Two algorithms for barrier synchronization".
void dissemination_barrier(Call& call);

}  // namespace troupe
