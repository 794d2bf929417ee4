// ReplicaSum: flat gradients added up over the replicas of a worker in memory, then once over the
// workers. No sockets where there is one worker.
//
// Threads: add_up() is called by every replica on its own thread, inside ReplicaThreads::run().
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "strategies/engines/engine.h"
#include "strategies/replica_threads.h"

namespace troupe::detail {

class ReplicaSum {
 public:
  /// `threads` outlives this object. The worker is alone until use() is called.
  explicit ReplicaSum(ReplicaThreads& threads);

  /// From now on sums go on over the workers, by `engine`, which outlives this object.
  void use(Engine& engine) { engine_ = &engine; }

  /// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all replicas of all
  /// workers; every replica ends with the same bits. Replicas are added in their order as
  /// distributed/rank_order.h says, whatever thread is first, so a run repeats bit for bit; where
  /// every worker has the same power of two of them, the sum over the workers goes on in that order
  /// over all replicas. `summand` says what the values are.
  /// Returns false when a value of the sum is not finite, or the sum of all values is not: the same
  /// answer on every replica. Shapes: the same n on every replica. Collective: yes. Throws: as
  /// ReplicaThreads::meet and Engine::all_reduce.
  /// Cost: each replica adds one slice for all; two meetings, four with an engine.
  [[nodiscard]] bool add_up(int replica, const at::Tensor& flat, const Summand& summand);

 private:
  /// The part of the values that this replica adds for all. Returns whether the sum is finite.
  bool add_slice(int replica);

  ReplicaThreads& threads_;
  Engine* engine_ = nullptr;
  // By replica; each writes its own entry before a meeting and reads the others' after it.
  std::vector<at::Tensor> flats_;
  std::vector<char> finite_;
};

}  // namespace troupe::detail
