// Programs trained by processes: what draws random numbers, since threads share LibTorch's one
// generator, and the column "elastic, one killed", a group that loses its chief and lets another
// worker in. Forked from a process that has computed nothing yet: a start of its own would cost
// each of them more than the training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "troupe/core/options/cluster.h"

namespace troupe::programs {

/// Runs `body` as so many processes at once. Returns what they say, "" for well, and how one ended
/// that says nothing.  Blocks: 60 s at most. The process has no threads.
[[nodiscard]] std::string as_processes(int count,
                                       const std::function<std::string(int process)>& body);

constexpr std::int64_t kKilledAfter = 7;  // steps
constexpr std::int64_t kWaitsForIt = 12;  // steps, after which those that train wait for the other

/// A process's part in an elastic group.
struct ElasticWorker {
  Cluster cluster;
  bool is_victim = false;
};

/// Runs `body` as two workers, one of them the victim, and as the one that comes in its place.
/// Otherwise as as_processes.
[[nodiscard]] std::string as_elastic_workers(
    const std::function<std::string(const ElasticWorker& worker)>& body);

}  // namespace troupe::programs
