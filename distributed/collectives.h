// The algorithms behind WorkerGroup's collectives; docs/algorithms.md has steps and costs.
//
// Words: W is the world size, r this rank. A *chunk* is what one rank contributes to or owns in a
// ring; a *round* is one exchange of recursive doubling or of a tree. In every one the order of
// additions depends on W and the length alone.
#pragma once

#include <cstddef>
#include <vector>

#include "core/span.h"
#include "distributed/call.h"
#include "distributed/reduction.h"
#include "distributed/rounding.h"

namespace troupe {

/// Up to here recursive doubling is faster than the ring; it needs half of the scratch.
/// Source: docs/performance.md (128 KiB: 35 us against 38 us for W = 2, 127 us against 216 us
/// for W = 4).
inline constexpr std::size_t kDoublingMaxBytes = std::size_t{128} * 1024;

/// Sum on all ranks, log2(W) rounds of all bytes; ranks beyond the largest power of two are folded
/// onto a partner first.  Shapes: values at most kDoublingMaxBytes.
/// Source: Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication operations
/// in MPICH".
void doubling_allreduce(Call& call, Span<std::byte> values, const Reduction& sum);

/// Sum on all ranks: reduce-scatter, then all-gather, around the ring; 2(W-1) messages of n/W.
/// Bytes are sent on as soon as they are summed.
/// Source: Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations".
void ring_allreduce(Call& call, Span<std::byte> values, const Adder& sum);

/// The chunk of `values` that the ring calls `index`, taken modulo W: rank r starts with chunk r.
/// Chunks begin at multiples of 64 bytes; those at the end may be short or empty.
[[nodiscard]] Span<std::byte> ring_chunk(Span<std::byte> values, int world_size, int index);

/// Shapes: all [n].
struct CompressedValues {
  Span<float> values;
  Span<float> errors;
  Span<std::uint16_t> wire;  // working memory
};

/// Sum on all ranks around the ring with 16 bits per value; see WorkerGroup::all_reduce.
/// Source: Seide et al. 2014, "1-bit stochastic gradient descent and its application to
/// data-parallel distributed training of speech DNNs"; Karimireddy et al. 2019, "Error feedback
/// fixes SignSGD and other gradient compression schemes".
void compressed_allreduce(Call& call, const CompressedValues& buffers, const Rounding& rounding);

/// Binomial tree towards the root.
void tree_reduce(Call& call, Span<std::byte> values, int root, const Reduction& sum);

/// Binomial tree from the root; a rank sends on what it has while the rest arrives.
void tree_broadcast(Call& call, Span<std::byte> bytes, int root);

/// Every rank's block to every rank, around the ring: lengths first, then blocks.
/// Throws: ConfigError when some rank's block exceeds `max_bytes`.
[[nodiscard]] std::vector<std::vector<std::byte>> ring_all_gather(Call& call,
                                                                  Span<const std::byte> mine,
                                                                  std::size_t max_bytes);

/// Dissemination barrier: ceil(log2(W)) rounds.
/// Source: Hensgen, Finkel & Manber 1988, "Two algorithms for barrier synchronization".
void dissemination_barrier(Call& call);

}  // namespace troupe
