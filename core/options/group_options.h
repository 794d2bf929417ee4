// Limits and transports of a worker group. Plain data.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe {

class Secret;

/// How bytes travel between workers on one machine; between machines always by TCP. Automatic uses
/// the fastest that works. Sums have the same bits with all of them.
enum class Transport { automatic, tcp, unix_socket, shared_memory };
/// As --transport spells it: "auto", "tcp", "unix", "shm".
[[nodiscard]] constexpr const char* name_of(Transport transport) {
  constexpr const char* kNames[] = {"auto", "tcp", "unix", "shm"};
  return kNames[static_cast<int>(transport)];
}

namespace detail {
/// The route of an all-reduce; automatic: by length and world size. All give the same bits.
enum class SumRoute { automatic, doubling, direct, two_level };
}  // namespace detail

/// Limits of a group. Every wait in it is bounded by one of them.
struct GroupOptions {
  std::chrono::milliseconds start_timeout{300'000};       // until every worker has joined
  std::chrono::milliseconds collective_timeout{300'000};  // for one collective
  std::chrono::milliseconds heartbeat_interval{1'000};
  std::chrono::milliseconds heartbeat_timeout{5'000};  // a worker silent this long is lost
  std::chrono::milliseconds close_timeout{10'000};
  /// What every process of the job holds, and nobody else: without it nobody takes part. Null is
  /// for a group of one.
  std::shared_ptr<const Secret> secret;
  bool insecure = false;  // between machines, too, nothing is encrypted; the proof stays
  Transport transport = Transport::automatic;
  /// How long a collective polls before it sleeps, if every worker on this machine can have a core.
  /// Longer than a piece of a long sum keeps a peer busy; short enough for a host that schedules
  /// two virtual cores on one in turn. 0: it sleeps at once, for containers with their own
  /// addresses that share a machine's cores.
  /// Source: docs/performance.md (10x at 4 B; never when oversubscribed).
  std::chrono::microseconds spin{250};
  /// The same for a peer that is still computing and has not reached the collective: no two workers
  /// take equally long, and on a shared machine a process that has slept waits for a core.
  /// Source: docs/performance.md.
  std::chrono::microseconds arrival_spin{3'000};
  /// Bytes of one shared memory segment, for all workers together; a larger one is not made.
  std::uint64_t shared_memory_limit = std::uint64_t{1} << 46;
  /// Leaves of the tree in which the workers' values are added (distributed/group/tree_cut.h), of
  /// which each worker hosts a node; 0: one for each worker.
  int virtual_replicas = 0;
  // For tests, benchmarks and simulations; the same on every worker.
  detail::SumRoute sum_route = detail::SumRoute::automatic;
  int group_size = 0;  // of the two-level all-reduce, a power of two; 0: derived from world size
};

}  // namespace troupe
