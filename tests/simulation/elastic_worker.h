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
  /// What a step came to is told, in a file that all see; `again`: as Outbox::Tell.
  std::function<void(int step, bool again)> on_told;
};

/// Runs inside a simulated process. `line`: the descriptor of its line to the rendezvous.
void train(const ElasticPlan& plan, Life& life, const Cluster& cluster, int line,
           const Witness& witness);

}  // namespace troupe::simulation
