// What a process sets once, before it computes: how many threads a replica computes with,
// LibTorch's and the BLAS library's.
#pragma once

#include <string>

namespace troupe {

/// Sets LibTorch's intra-op threads, and OpenBLAS's to one unless OPENBLAS_NUM_THREADS says
/// otherwise: two pools that each fill the cores cost 1.7 times the step (docs/performance.md).
/// `requested` 0: OMP_NUM_THREADS where set, else LibTorch's default (the physical cores), but at
/// most the usable cores divided by `workers_here`; then divided by the `replicas` of this worker,
/// whose threads compute side by side with a pool each. Call before the first tensor operation.
/// Returns the number of LibTorch's threads for one replica.
int configure_compute_threads(int requested, int workers_here, int replicas);

/// What to warn of where `found` workers turn out to share this machine when they have met, and
/// only `counted` did when its cores were divided: "" if the threads of all fit its cores all the
/// same.
[[nodiscard]] std::string crowding(int found, int counted, int replicas);

}  // namespace troupe
