// The cost models that measured times are compared with.
//
// Words: W ranks, n bytes on each, a message of m bytes takes alpha + m/beta; o is what one more
// message costs its sender. Times are those of the last rank, when all enter at once.
// Source: Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication operations
// in MPICH"; Patarasuk & Yuan 2009 for the ring.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::bench {

/// A cost as multiples of the three parameters: seconds = alphas * alpha + bytes / beta + messages
/// * o.
struct Cost {
  double alphas = 0;
  double bytes = 0;
  double messages = 0;
};

struct Parameters {
  double alpha = 0;  // seconds
  double beta = 0;   // bytes per second; 0: no limit
  double o = 0;      // seconds
};

[[nodiscard]] double seconds_of(const Cost& cost, const Parameters& parameters);

/// 2(W-1) steps of n/W.
[[nodiscard]] Cost ring_cost(int ranks, std::size_t bytes);
/// Every rank owns n/W: all send it theirs at once, and it sends the sum to all.
[[nodiscard]] Cost direct_cost(int ranks, std::size_t bytes);
/// Direct within groups of G, direct over the groups by the owners of a slice, back within groups.
[[nodiscard]] Cost two_level_cost(int ranks, int group_size, std::size_t bytes);
/// ceil(log2(W)) exchanges of n.
[[nodiscard]] Cost doubling_cost(int ranks, std::size_t bytes);
/// ceil(log2(W)) rounds of a message without payload.
[[nodiscard]] Cost barrier_cost(int ranks);
/// From the first SYN to the start frame: connect (2), hello, welcome, connect the links (2), link
/// hello and accept (2), ready, start; the chief's card carries W-1 of each control frame.
[[nodiscard]] Cost rendezvous_cost(int ranks);

struct Observation {
  Cost cost;
  double seconds = 0;
};
/// Parameters that predict `seen` with the least squares of relative errors; alpha and beta only (o
/// is 0). Needs two observations that differ in the ratio of alphas to bytes.
[[nodiscard]] Parameters fit(const std::vector<Observation>& seen);

}  // namespace troupe::bench
