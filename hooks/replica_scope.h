// ReplicaScope: what a forward pass of a replica's models runs in.
#pragma once

#include "hooks/autocast.h"
#include "hooks/replica.h"

namespace troupe::detail {

/// As long as it lives, the replica is this thread's running one, and its precision is switched on.
class ReplicaScope {
 public:
  explicit ReplicaScope(Replica& replica);
  ~ReplicaScope();
  ReplicaScope(const ReplicaScope&) = delete;
  ReplicaScope& operator=(const ReplicaScope&) = delete;

 private:
  Replica* const former_;
  const Autocast autocast_;
};

/// The replica whose step this thread runs; null outside any. Layers that normalise over the global
/// batch find their replica by it, for a forward function is told nothing but its input.
[[nodiscard]] Replica* running_replica();

}  // namespace troupe::detail
