// World: worker groups of many ranks in one process, measured. A rank is a thread with its network
// thread, as in a process of its own; with a NetworkShape each lives in its own network namespace.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "bench/scale/network_model.h"
#include "distributed/worker_group.h"

namespace troupe::bench {

struct WorldPlan {
  int ranks = 8;
  std::vector<std::size_t> sizes;        // bytes of float32 values
  int rounds = 5;                        // of everything, the rendezvous too
  std::chrono::milliseconds compute{5};  // every rank sleeps this long before each all-reduce
  std::optional<NetworkShape> network;   // unset: loopback
  SumRoute route = SumRoute::automatic;
  int sum_group = 0;  // of the two-level all-reduce; 0: derived from the number of ranks
};

/// Builds the group, lets it work, takes it down. The result: {"ranks", "rendezvous": {"seconds":
/// [rounds], "cpu_share"}, "barrier": {...}, "all_reduce": [{"bytes", "seconds", "cpu_share"}],
/// "threads", "descriptors", "resident_bytes_per_rank", "network": {...}}. Seconds are from the
/// last rank's entry to the last rank's return (rendezvous: from the first entry); cpu_share is the
/// part of this machine's cores that the process used meanwhile. The sums are checked. Throws:
/// EnvironmentError, what a WorkerGroup throws, InternalError where a sum is wrong.
[[nodiscard]] nlohmann::ordered_json measure_world(const WorldPlan& plan);

/// The same in a child process, so that every number of ranks begins with fresh memory and
/// descriptors, of which the child may have as many as the system grants. This process must have
/// one thread. Where the child ends with an error, which it has printed, this process leaves with
/// its exit code.  Throws: EnvironmentError; PeerFailed where a signal ended it.
[[nodiscard]] nlohmann::ordered_json measured_in_child(const WorldPlan& plan);

}  // namespace troupe::bench
