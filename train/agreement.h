// Agreement: what any worker wants after a step, all do. One small message.
#pragma once

#include <array>

#include "strategies/strategy.h"

namespace troupe::detail {

struct Wishes {
  bool save = false;             // it is time for a checkpoint
  bool stop = false;             // an action or the loop asked for the end
  bool terminate = false;        // SIGTERM came
  bool loss_not_finite = false;  // of the last step
  int leaving = 0;               // workers whose loop has ended before training: 1 where it has
};

/// Collective: yes. The same answer on every worker.
[[nodiscard]] inline Wishes agree(Strategy& strategy, const Wishes& mine) {
  std::array<double, 5> votes = {mine.save ? 1.0 : 0.0, mine.stop ? 1.0 : 0.0,
                                 mine.terminate ? 1.0 : 0.0, mine.loss_not_finite ? 1.0 : 0.0,
                                 static_cast<double>(mine.leaving)};
  strategy.sum(Span<double>(votes.data(), votes.size()));
  return {votes[0] > 0, votes[1] > 0, votes[2] > 0, votes[3] > 0, static_cast<int>(votes[4])};
}

}  // namespace troupe::detail
