// Wishes: what a worker wants where a training loop continues, and how the wishes of all become
// one decision.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "troupe/core/span.h"
#include "troupe/core/stop_signal.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

/// What any worker wants after a step, all do.
/// Each but the signal is counted: how many workers have the wish, 1 or 0 of one.
struct Wishes {
  int save = 0;             // it is time for a checkpoint
  int stop = 0;             // an action or the loop asked for the end
  int signal = 0;           // the one of kStopSignals that came to all
  int loss_not_finite = 0;  // of the last step
  int leaving = 0;          // the worker's loop has ended before training
  int save_anew = 0;        // the chief is another one, and the last one may not have saved
  int admit = 0;            // workers wait to join
  int at_end = 0;           // the worker's epoch has no further step
  int quitting = 0;         // the worker leaves the others, which go on
  int voters = 1;           // workers that agreed
  int too_few = 0;          // workers are left
};

/// One small message. `more`: values that travel in it, and become their sums over the workers.
/// Collective: yes. The same answer on every worker.
[[nodiscard]] inline Wishes agree(Strategy& strategy, const Wishes& mine, Span<double> more = {}) {
  constexpr int Wishes::*kCounted[] = {
      &Wishes::save,      &Wishes::stop,  &Wishes::loss_not_finite, &Wishes::leaving,
      &Wishes::save_anew, &Wishes::admit, &Wishes::quitting,        &Wishes::voters,
      &Wishes::too_few,   &Wishes::at_end};
  constexpr std::size_t kSignals = std::size(kCounted);  // where they begin
  constexpr std::size_t kVotes = kSignals + kStopSignals.size();
  std::vector<double> votes(kVotes, 0.0);
  for (std::size_t i = 0; i < kSignals; ++i) votes[i] = mine.*kCounted[i];
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    votes[kSignals + i] = mine.signal == kStopSignals[i] ? 1 : 0;
  votes.insert(votes.end(), more.begin(), more.end());
  strategy.sum(Span<double>(votes.data(), votes.size()));
  std::copy(votes.begin() + kVotes, votes.end(), more.begin());
  Wishes agreed;
  for (std::size_t i = 0; i < kSignals; ++i) agreed.*kCounted[i] = static_cast<int>(votes[i]);
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (votes[kSignals + i] > 0) agreed.signal = kStopSignals[i];
  // Where nobody is left to go on, it is the end of all.
  if (agreed.quitting == agreed.voters) agreed.signal = SIGTERM;
  return agreed;
}

}  // namespace troupe::detail
