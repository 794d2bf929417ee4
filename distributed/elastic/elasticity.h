// Elasticity: what a training asks of a group that goes on without a worker that is lost, and takes
// in others. ElasticGroup is the one there is.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/distributed/elastic/rounds.h"

namespace troupe {

/// From one round to the next.
struct GroupChange {
  std::vector<std::string> left;  // tasks
  std::vector<std::string> came;
  std::string cause;   // why the former round ended
  double seconds = 0;  // that this worker stood still
};

class Elasticity {
 public:
  virtual ~Elasticity() = default;

  /// Changes since the last call, in order.
  [[nodiscard]] virtual std::vector<GroupChange> take_changes() = 0;
  /// Whether this worker can be the chief, asked between two rounds; without it any worker can.
  virtual void lead_if(std::function<bool()> leads) = 0;

  /// A training begins. From the first on losses are healed: this worker holds the run's state. To
  /// later ones nobody is admitted: who comes begins with the first.  Collective: at the same place
  /// of all workers' sequence.
  virtual void start() = 0;
  /// It has ended, and the present chief has all that follows to do: a loss of any other worker is
  /// healed, and one of the chief is PeerLost.  Collective: as start().
  virtual void end() = 0;

  /// Whether this worker came to a run under way and does not hold its state yet. It is alone until
  /// it is admitted.
  [[nodiscard]] virtual bool is_joining() const = 0;
  /// Whether others wait to be admitted.  Blocks: no.
  [[nodiscard]] virtual bool joiners_wait() const = 0;
  /// Lets those in that wait, and goes on without those that leave(): the next round is formed.
  /// `share` is what all do to give them the state; it changes nothing where it is held already.
  /// Collective: yes; what all have agreed on.  Throws: what `share` throws, if that is no loss.
  virtual void admit(const std::function<void()>& share) = 0;
  /// admit() for the one that waits.  Blocks: until it is admitted.
  virtual void enter(const std::function<void()>& share) = 0;

  /// How this worker is to end, as Rounds::departure(). `is_told`: a signal wants it to, so it
  /// asks. Blocks: no.
  [[nodiscard]] virtual std::optional<Departure> departure(bool is_told) = 0;
  /// For one that leaves the others, where all have agreed on it and they call admit(). There is no
  /// group after it.
  virtual void leave() = 0;
};

}  // namespace troupe
