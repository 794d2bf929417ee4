// Agreement: what any worker wants after a step, all do. One small message.
#pragma once

#include <array>

#include "strategies/strategy.h"

namespace troupe::detail {

struct Wishes {
  bool save = false;       // it is time for a checkpoint
  bool stop = false;       // an action asked for the end
  bool terminate = false;  // SIGTERM came
  bool poisoned = false;   // a loss was not finite
};

/// Collective: yes. The same answer on every worker.
[[nodiscard]] inline Wishes agree(Strategy& strategy, const Wishes& mine) {
  std::array<double, 4> votes = {mine.save ? 1.0 : 0.0, mine.stop ? 1.0 : 0.0,
                                 mine.terminate ? 1.0 : 0.0, mine.poisoned ? 1.0 : 0.0};
  strategy.sum(Span<double>(votes.data(), votes.size()));
  return {votes[0] > 0, votes[1] > 0, votes[2] > 0, votes[3] > 0};
}

}  // namespace troupe::detail
