// The column "elastic, one killed": a program trained by processes of an elastic group, which loses
// its chief and lets another worker in. Forked from a process that has computed nothing yet: a
// start of its own would cost each of them more than the training.
#pragma once

#include <functional>
#include <string>

#include "troupe/core/options/cluster.h"

namespace troupe::programs {

constexpr std::int64_t kKilledAfter = 7;  // steps
constexpr std::int64_t kWaitsForIt = 12;  // steps, after which those that train wait for the other

/// A process's part in it.
struct ElasticWorker {
  Cluster cluster;
  bool is_victim = false;
};

/// Runs `body` as two workers, one of them the victim, and as the one that comes in its place.
/// Returns what they say, "" for well, and how one ended that was not to end so.
/// Blocks: 60 s at most. The process has no threads.
[[nodiscard]] std::string as_elastic_workers(
    const std::function<std::string(const ElasticWorker& worker)>& body);

}  // namespace troupe::programs
