// What becomes of memory that was freed: kept in the process, for the next step of training,
// instead of going back to the kernel and coming from it again, page by page.
#pragma once

namespace troupe {

/// Tells the C library's malloc to keep freed memory. A step of training frees what it allocated;
/// by default glibc gives blocks above 128 KiB, or the end of a heap above a limit that moves, back
/// to the kernel, which clears every page anew in the next step (docs/running.md has figures).
/// On another thread than the process's first, blocks above 32 MiB still go back.
/// Changes nothing and returns false where the environment has settings of the same kind
/// (MALLOC_MMAP_THRESHOLD_, MALLOC_MMAP_MAX_, MALLOC_TRIM_THRESHOLD_, MALLOC_TOP_PAD_, or their
/// names in GLIBC_TUNABLES), or where the C library is not glibc. An allocator that was put in
/// malloc's place (jemalloc, tcmalloc) is not affected. Holds for the whole process, from now on.
/// Thread: any, best before there are others.
bool keep_freed_memory();

}  // namespace troupe
