// What one process of a simulated elastic group does: a training in small.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/elastic_launcher.h"
#include "troupe/core/options/cluster.h"

namespace troupe::simulation {

/// Who looks on.
struct Witness {
  std::function<void(Life& life, Place place)> on_place;
  std::function<std::string(const Life& life, const Cluster& cluster)> objection;
  std::function<std::vector<int>(std::uint64_t generation)> members_of;
  /// A record, from 1 on, is told in a file that all see; `again`: as Outbox::Tell. Returns "", or
  /// what is wrong with that.
  std::function<std::string(int record, bool again)> on_told;
};

/// What is told of each step.
inline constexpr int kRecordsOfStep = 2;

/// Runs inside a simulated process. `line`: the descriptor of its line to the rendezvous.
void train(const ElasticPlan& plan, Life& life, const Cluster& cluster, int line,
           const Witness& witness);

}  // namespace troupe::simulation
