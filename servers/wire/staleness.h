// Staleness: what keeps workers together that train through parameter servers. Plain data.
//
// Vocabulary: a worker's *clock* counts the steps that it has ended. With a bound of S, a worker
// may begin a step with parameters that hold all updates of all live workers up to its own clock -
// S. Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel
// parameter server".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct Staleness {
  std::optional<std::int64_t> staleness_bound;  // 0: synchronous; unset: no bound
  bool prefetch = true;  // fetch the values of the next step while this one computes

  [[nodiscard]] bool synchronous() const { return staleness_bound && *staleness_bound == 0; }
  [[nodiscard]] bool may_prefetch() const { return prefetch && !synchronous(); }
};

/// What the servers counted, for the report at the end.
struct PaceStatistics {
  std::int64_t updates = 0;
  std::map<std::int64_t, std::int64_t> staleness;  // in clocks: how often, over all updates
  std::map<std::int64_t, std::int64_t> missed;     // updates between read and write: how often
  std::vector<std::string> lost;                   // "worker/2 at step 700", in order
  std::vector<std::string> joined_again;

  void count(std::int64_t clocks_behind, std::int64_t updates_between) {
    ++updates, ++staleness[clocks_behind], ++missed[updates_between];
  }
};

}  // namespace troupe
