#include "hooks/replica_scope.h"

namespace troupe::detail {
namespace {

thread_local Replica* running = nullptr;

}  // namespace

ReplicaScope::ReplicaScope(Replica& replica)
    : former_(running), autocast_(replica.place().device, replica.step_options().precision) {
  running = &replica;
}

ReplicaScope::~ReplicaScope() { running = former_; }

Replica* running_replica() { return running; }

}  // namespace troupe::detail
