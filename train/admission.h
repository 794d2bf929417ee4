// Admission: how a worker that comes to a run under way gets its state. At the edge of a step the
// chief copies what a checkpoint would hold, every worker receives it, and the one that has come
// resumes from it, in memory, as it would from a file. The others change nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "troupe/strategies/strategy.h"
#include "troupe/train/checkpoint/run_snapshot.h"

namespace troupe::detail {

/// A worker's part in it, on either side. In a group that is not elastic nobody waits.
class Admission {
 public:
  /// Both outlive it.
  Admission(Strategy& strategy, TrainState& state) : strategy_(strategy), state_(state) {}

  /// Where a run begins: a worker that joins one under way waits here, and has its state then.
  /// Throws: as restore(); what Elasticity::enter throws.
  void enter(const DataIdentity& data);
  /// Whether this worker has joined a run under way: the others have begun long ago.
  [[nodiscard]] bool has_joined() const { return has_joined_; }
  /// The step after which the run has begun, which options.steps count from: the present one, when
  /// this is first called, but where this worker has joined.
  [[nodiscard]] std::int64_t began_at();

  /// Lets in who waits, at the edge of a step.
  /// Collective: what all have agreed on.  Throws: as capture().
  void admit();

 private:
  void take();

  Strategy& strategy_;
  TrainState& state_;
  DataIdentity data_;
  std::optional<std::int64_t> began_at_;
  bool has_joined_ = false;
};

}  // namespace troupe::detail
