// Rank processes: the benchmark's own program, started once per rank on this machine (fork and
// exec: a forked LibTorch hangs), with one compute thread, one BLAS thread and an allocator that
// keeps its memory each.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "distributed/cluster.h"

namespace troupe::bench {

/// What a rank is told on its command line, see parse_bench_options().
struct RankPlace {
  int rank = -1;  // -1: this process is the one that starts the others
  int count = 2;
  std::uint16_t port = 0;  // where rank 0 listens on 127.0.0.1
  int listen_fd = -1;      // rank 0's listening socket
  std::string store_file;  // where Gloo's ranks find each other
};

/// The group of these ranks, as seen by one of them.
[[nodiscard]] Cluster cluster_of(const RankPlace& place);

/// Starts `count` copies of the running program with `arguments` and the flags of a RankPlace, and
/// waits for them. Returns what rank 0 wrote to stdout; stderr is shared. Afterwards no process is
/// left.
/// Blocks: at most `limit`.  Throws: PeerFailed naming the rank that failed, with its exit code;
/// TimeoutError; EnvironmentError.
[[nodiscard]] std::string run_ranks(int count, const std::vector<std::string>& arguments,
                                    std::chrono::milliseconds limit);

}  // namespace troupe::bench
