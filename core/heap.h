// What malloc does with the memory of a step of training. By default glibc gives it back to the
// kernel, in pages of 4 KiB, and has it cleared anew in the next step; docs/running.md has figures.
#pragma once

namespace troupe {

/// Tells the C library's malloc to keep freed memory for the next step; to take it from the kernel
/// in huge pages, where that gives them to who asks (the first GiB that is allocated from now on);
/// to merge small freed blocks with their neighbours at once (no fast bins); and, with
/// `loader_threads` above 1, to serve threads that allocate for the first time from the same heap
/// as the others: each loader thread would otherwise keep what any of them needs at its peak.
/// Changes nothing and returns false where the environment says
/// how malloc is to keep memory (MALLOC_MMAP_THRESHOLD_, MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_,
/// MALLOC_TOP_PAD_), or where the C library is not glibc. Of huge pages, fast bins and heaps for
/// themselves the environment may decide, too (glibc.malloc.hugetlb and glibc.malloc.mxfast in
/// GLIBC_TUNABLES; MALLOC_ARENA_MAX); every name may also stand in GLIBC_TUNABLES. An allocator
/// that was put in malloc's place (jemalloc, tcmalloc) is not affected. Holds for the whole
/// process, from now on; may be called again. Thread: the process's first, best before there are
/// others.
bool prepare_heap(int loader_threads);

/// Whether prepare_heap() has returned true: what keeps memory beside malloc does so then alone.
bool heap_is_prepared();

/// Gives the pages of freed blocks back to the kernel once, but for those at the heap's end: after
/// large blocks were freed for good. malloc does not use them for aligned blocks of the same
/// length, which LibTorch's are, as the remainders of the alignment are missing.
void return_freed_memory();

}  // namespace troupe
