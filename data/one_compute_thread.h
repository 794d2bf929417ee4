// Keeps ATen's work on the calling thread on that thread alone.
#pragma once

namespace troupe::detail {

/// Gives the calling thread, and no other, one compute thread. at::set_num_threads() would not do:
/// it also changes what threads that start later get, such as the backward pass's.
void use_one_compute_thread_here();

}  // namespace troupe::detail
