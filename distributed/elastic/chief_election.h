// Chief election: which worker of an elastic group's next round is its chief, rank 0. A group
// without rounds has the chief that its cluster names (core/options/cluster.h).
#pragma once

#include <utility>

namespace troupe {

/// A worker that holds the run's state.
struct ChiefCandidate {
  bool leads = true;  // Readiness::leads: it can be the chief
  int rank = 0;       // in the former round
};

/// Whether `a` gets the lower rank: a chief that is left stays, else the next that can lead.
[[nodiscard]] inline bool is_elected_before(const ChiefCandidate& a, const ChiefCandidate& b) {
  return std::pair(!a.leads, a.rank) < std::pair(!b.leads, b.rank);
}

}  // namespace troupe
