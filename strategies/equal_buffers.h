// Buffers of replicas (batch-norm statistics), made equal.
#pragma once

#include "troupe/strategies/train_state.h"

namespace troupe {

class WorkerGroup;

namespace detail {

/// Makes buffers equal on all replicas of all workers, as Strategy::synchronize_buffers says.
/// Collective: yes, if there is a group.
void make_buffers_equal(const TrainState& state, WorkerGroup* group);

}  // namespace detail
}  // namespace troupe
