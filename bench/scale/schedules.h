// Schedules: the messages of the all-reduce algorithms, and a simulation that runs them over a
// NetworkModel with a virtual clock. Nothing is sent and nothing is added: the result is the time
// that the network and the order of messages would take. It shows what cannot be measured here.
//
// Words as in cost_model.h; G ranks make a group.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/scale/network_model.h"

namespace troupe::bench {

struct Message {
  int peer = 0;
  std::size_t bytes = 0;
};
/// A rank sends these one after the other, and goes on when it has received those.
struct Step {
  std::vector<Message> sends;
  std::vector<Message> receives;
};
/// By rank, then in order.
using Schedule = std::vector<std::vector<Step>>;

/// The ring cut into W chunks: 2(W-1) steps.
[[nodiscard]] Schedule ring_schedule(int ranks, std::size_t bytes);
/// Recursive doubling; `ranks` must be a power of two.
[[nodiscard]] Schedule doubling_schedule(int ranks, std::size_t bytes);
/// Every rank owns one part, gets it from all and sends the sum to all.
[[nodiscard]] Schedule direct_schedule(int ranks, std::size_t bytes);
/// Direct within groups to owners of n/G, direct between the owners of the same part in all groups,
/// then back within groups. `ranks` must be a multiple of `group_size`.
[[nodiscard]] Schedule two_level_schedule(int ranks, int group_size, std::size_t bytes);

/// Seconds until the last rank has done its last step, when all begin at once; every message costs
/// its sender `per_message` of its own time, and kFrameHeaderBytes on the wire.
[[nodiscard]] double simulate(const Schedule& schedule, const NetworkShape& network,
                              std::chrono::nanoseconds per_message);

}  // namespace troupe::bench
