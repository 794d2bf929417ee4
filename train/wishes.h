// Wishes: what a worker wants where a training loop continues, and how the wishes of all become
// one decision.
#pragma once

#include <array>
#include <cstddef>

#include "troupe/core/span.h"
#include "troupe/core/stop_signal.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

/// What any worker wants after a step, all do.
struct Wishes {
  bool save = false;             // it is time for a checkpoint
  bool stop = false;             // an action or the loop asked for the end
  int signal = 0;                // the one of kStopSignals that came to all
  bool loss_not_finite = false;  // of the last step
  int leaving = 0;               // workers whose loop has ended before training: 1 where it has
  bool save_anew = false;        // the chief is another one, and the last one may not have saved
  bool admit = false;            // workers wait to join
  int at_end = 0;                // workers whose epoch has no further step: 1 where it has none
  int quitting = 0;              // workers that leave the others, which go on: 1 of one
  int voters = 1;                // workers that agreed
  bool too_few = false;          // workers are left
};

/// One small message. Collective: yes. The same answer on every worker.
[[nodiscard]] inline Wishes agree(Strategy& strategy, const Wishes& mine) {
  const auto vote = [](bool wish) { return wish ? 1.0 : 0.0; };
  constexpr std::size_t kSignals = 10;  // where they begin
  std::array<double, kSignals + kStopSignals.size()> votes = {
      vote(mine.save),      vote(mine.stop),  vote(mine.loss_not_finite), 1.0 * mine.leaving,
      vote(mine.save_anew), vote(mine.admit), 1.0 * mine.quitting,        1.0 * mine.voters,
      vote(mine.too_few),   1.0 * mine.at_end};
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    votes[kSignals + i] = vote(mine.signal == kStopSignals[i]);
  strategy.sum(Span<double>(votes.data(), votes.size()));
  Wishes agreed;
  agreed.save = votes[0] > 0;
  agreed.stop = votes[1] > 0;
  agreed.loss_not_finite = votes[2] > 0;
  agreed.leaving = static_cast<int>(votes[3]);
  agreed.save_anew = votes[4] > 0;
  agreed.admit = votes[5] > 0;
  agreed.quitting = static_cast<int>(votes[6]);
  agreed.voters = static_cast<int>(votes[7]);
  agreed.too_few = votes[8] > 0;
  agreed.at_end = static_cast<int>(votes[9]);
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (votes[kSignals + i] > 0) agreed.signal = kStopSignals[i];
  // Where nobody is left to go on, it is the end of all.
  if (agreed.quitting == agreed.voters) agreed.signal = SIGTERM;
  return agreed;
}

}  // namespace troupe::detail
