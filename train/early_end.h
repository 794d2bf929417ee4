// EarlyEnd: how training ends before its time because of a signal, or because an elastic group has
// too few workers left: of all, once the state is saved, or of one worker that leaves the others.
#pragma once

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
  /// Saves, and again where the chief that wrote was lost.
  /// Collective: yes.  Blocks: until the files are written.
  void save(Checkpointer& checkpoints, Checkpointer::Save which) const;

 private:
  Strategy& strategy_;
  TrainState& state_;
  const TrainOptions& options_;
};

}  // namespace troupe::detail
