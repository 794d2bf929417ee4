// EarlyEnd: how training ends before its time because of a signal, or because an elastic group has
// too few workers left: of all, once the state is saved, or of one worker that leaves the others.
#pragma once

#include <functional>

#include "troupe/strategies/strategy.h"
#include "troupe/train/checkpoint/checkpointer.h"
#include "troupe/train/wishes.h"

namespace troupe::detail {

class EarlyEnd {
 public:
  /// All outlive it.
  EarlyEnd(Strategy& strategy, TrainState& state, const TrainOptions& options)
      : strategy_(strategy), state_(state), options_(options) {}

  /// Adds what follows from `signal`, which came to this worker (0: none), and what the rendezvous
  /// of an elastic group has said. There a signal to one worker is its own affair.
  void wish(Wishes& mine, int signal) const;
  [[nodiscard]] static bool is_of_all(const Wishes& agreed) {
    return agreed.signal != 0 || agreed.too_few;
  }
  /// Ends training for all; `checkpoints` null: nothing is saved.
  /// Collective: yes.  Throws: Stopped; PeerLost where too few are left.
  [[noreturn]] void end_all(const Wishes& agreed, Checkpointer* checkpoints) const;
  /// This worker, which has `signal`, leaves; the others call Admission::admit().
  /// Throws: Stopped.
  [[noreturn]] void leave(Checkpointer& checkpoints) const;
  /// Adds what this worker knows of a chief that was lost.
  static void wish_for_chief(Wishes& mine, bool is_chief, Checkpointer& checkpoints);
  /// Saves, and again where the chief that wrote was lost before the others had met; `wish` (null:
  /// nothing) adds to what this worker wants then. Returns what all have agreed on.
  /// Collective: yes.  Blocks: until the files are written, but for a periodic save.
  Wishes save(Checkpointer& checkpoints, Checkpointer::Save which,
              const std::function<void(Wishes&)>& wish = nullptr) const;
  /// Where all is saved and told to those that listen: returns whether the chief was lost before
  /// that, and the next one writes from now on.  Collective: yes.
  [[nodiscard]] bool follow_chief(Checkpointer& checkpoints) const;

 private:
  Strategy& strategy_;
  TrainState& state_;
  const TrainOptions& options_;
};

}  // namespace troupe::detail
