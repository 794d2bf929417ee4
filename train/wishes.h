// Wishes: what a worker wants where a training loop continues, and how the wishes of all become
// one decision.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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
  int told = 0;             // it leads, and has told all that was to be reported so far
  int admit = 0;            // workers wait to join
  int at_end = 0;           // the worker's epoch has no further step
  int quitting = 0;         // the worker leaves the others, which go on
  int voters = 1;           // workers that agreed
  int too_few = 0;          // workers are left
  /// Of a new chief: 1 + the step of the newest checkpoint that it finds; 0: none, or no new chief.
  std::int64_t found = 0;
};

/// One small message. `more`: values that travel in it, and become their sums over the workers.
/// Collective: yes. The same answer on every worker.
[[nodiscard]] inline Wishes agree(Strategy& strategy, const Wishes& mine, Span<double> more = {}) {
  constexpr int Wishes::*kCounted[] = {
      &Wishes::save,     &Wishes::stop,      &Wishes::loss_not_finite,
      &Wishes::leaving,  &Wishes::save_anew, &Wishes::admit,
      &Wishes::quitting, &Wishes::voters,    &Wishes::too_few,
      &Wishes::at_end,   &Wishes::told};
  constexpr std::size_t kSignals = std::size(kCounted);  // where they begin
  constexpr std::size_t kFound = kSignals + kStopSignals.size();
  constexpr std::size_t kVotes = kFound + 1;
  std::vector<double> votes(kVotes, 0.0);
  for (std::size_t i = 0; i < kSignals; ++i) votes[i] = mine.*kCounted[i];
  for (std::size_t i = 0; i < kStopSignals.size(); ++i)
    votes[kSignals + i] = mine.signal == kStopSignals[i] ? 1 : 0;
  votes[kFound] = static_cast<double>(mine.found);  // exact up to 2^53
  votes.insert(votes.end(), more.begin(), more.end());
  strategy.sum(Span<double>(votes.data(), votes.size()));
  std::copy(votes.begin() + kVotes, votes.end(), more.begin());
  Wishes agreed;
  for (std::size_t i = 0; i < kSignals; ++i) agreed.*kCounted[i] = static_cast<int>(votes[i]);
  for (std::size_t i = kStopSignals.size(); i-- > 0;)
    if (votes[kSignals + i] > 0) agreed.signal = kStopSignals[i];
  agreed.found = static_cast<std::int64_t>(votes[kFound]);
  // Where nobody is left to go on, it is the end of all.
  if (agreed.quitting == agreed.voters) agreed.signal = SIGTERM;
  return agreed;
}

/// Of what all have agreed on: the newest checkpoint that a new chief has found.
[[nodiscard]] inline std::optional<std::int64_t> newest_of(const Wishes& agreed) {
  if (agreed.found == 0) return std::nullopt;
  return agreed.found - 1;
}

}  // namespace troupe::detail
