// ReplicaSum: flat gradients added up over the replicas of a worker in memory, then once over the
// workers. No sockets where there is one worker.
//
// Threads: add_up() is called by every replica on its own thread, inside ReplicaThreads::run().
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "distributed/worker_group.h"
#include "strategies/replica_threads.h"

namespace troupe::detail {

class ReplicaSum {
 public:
  /// `threads` and `group` outlive this object; without a group the worker is alone.
  ReplicaSum(ReplicaThreads& threads, WorkerGroup* group);

  /// Replaces `flat` [n], contiguous, float32 or float64, by its sum over all replicas of all
  /// workers; every replica ends with the same bits. Replicas are added in their order, whatever
  /// thread is first, so a run repeats bit for bit. `what` names the values in messages.
  /// Returns false when a value of the sum is not finite, or the sum of all values is not: the same
  /// answer on every replica. Shapes: the same n on every replica. Collective: yes. Throws: as
  /// ReplicaThreads::meet and WorkerGroup::all_reduce.
  /// Cost: each replica adds one slice for all; two meetings, four with a group.
  [[nodiscard]] bool add_up(int replica, const at::Tensor& flat, const std::string& what);

 private:
  /// The part of the values that this replica adds for all. Returns whether the sum is finite.
  bool add_slice(int replica);

  ReplicaThreads& threads_;
  WorkerGroup* group_;
  // By replica; each writes its own entry before a meeting and reads the others' after it.
  std::vector<at::Tensor> flats_;
  std::vector<char> finite_;
};

}  // namespace troupe::detail
