// Memory of its own for the tensors of every replica that runs on a thread of its own.
//
// Replicas that take blocks from one heap take over each other's: in a step, each then writes to
// what the other core holds. Measured on two cores, that doubles the time of a small network's step
// in some runs and not in others, and costs a transformer a tenth of every run
// (docs/performance.md). Heaps that glibc makes for threads have no huge pages and hand blocks
// above 64 MiB back.
//
// Each part is a range of addresses as long as the machine's memory, of which the kernel gives
// pages as they are touched, and that no core dump holds; Boost.Interprocess's best fit over
// red-black trees divides it up.
#pragma once

namespace troupe::detail {

/// Makes parts for `threads` threads, once for the process, and has LibTorch ask for the CPU's
/// memory here. Changes nothing where malloc is left alone (heap_is_prepared()), where the program
/// has an allocator of its own in LibTorch, or where the system gives no addresses (ulimit -v,
/// vm.overcommit_memory 2). Thread: one, before there are others that make tensors.
void prepare_replica_memory(int threads);

/// From now on, what this thread makes on the CPU lies in part `index`, from 0; LibTorch's own
/// allocator serves it where there are no parts, or where its part is full. A block goes back to
/// its part from whatever thread, and its pages stay there. Parts are shared where there are fewer.
void use_replica_memory(int index);

}  // namespace troupe::detail
