#include "troupe/core/heap.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace troupe {
namespace {

#ifdef __GLIBC__
constexpr int kGrowth = 32 << 20;  // of a heap at a time; pages count when they are touched
constexpr std::size_t kInHugePages = std::size_t{1} << 30;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Setting {
  const char* variable;  // null: it has none
  const char* tunable;
};

bool environment_has(std::initializer_list<Setting> settings) {
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  for (const Setting& setting : settings) {
    if (setting.variable != nullptr && std::getenv(setting.variable) != nullptr) return true;
    if (tunables != nullptr && std::strstr(tunables, setting.tunable) != nullptr) return true;
  }
  return false;
}

// The heap is made to grow, and all of what it grew by stays in it: nothing is touched. Where the
// kernel does not grow it, or has no huge pages, nothing changes.
void ask_for_huge_pages() {
  const auto end_of_heap = [] { return static_cast<char*>(::sbrk(0)); };
  char* const before = end_of_heap();
  void* volatile reserve = std::malloc(kInHugePages);
  std::free(reserve);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(before) % kHugePage;
  char* const begin = before + (beyond == 0 ? 0 : kHugePage - beyond);
  char* const end = end_of_heap();
  if (begin < end) {
    (void)::madvise(begin, static_cast<std::size_t>(end - begin), MADV_HUGEPAGE);
  }
}
#endif

bool is_prepared = false;

}  // namespace

bool prepare_heap(int loader_threads) {
#ifdef __GLIBC__
  if (environment_has({{"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold"},
                       {"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max"},
                       {"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold"},
                       {"MALLOC_TOP_PAD_", "glibc.malloc.top_pad"}})) {
    return false;
  }
  // All three: either of the last two alone would only end glibc's own adaptation. No mappings at
  // all instead of a higher M_MMAP_THRESHOLD: that ends at 32 MiB, and a
  // gradient of 3072 x 3072 floats is larger.
  const bool keeps = mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 &&
                     mallopt(M_TOP_PAD, kGrowth) == 1;
  if (!keeps) return false;
  // Without fast bins. Every tensor is aligned and leaves a remainder of up to 64 bytes, which a
  // fast bin keeps apart from its free neighbours until malloc is asked for 1 KiB or the heap's top
  // is used up. The top is a GiB here, and a small model never asks: the remainders took all of it.
  if (!environment_has({{nullptr, "glibc.malloc.mxfast"}})) mallopt(M_MXFAST, 0);
  if (loader_threads > 1 && !environment_has({{"MALLOC_ARENA_MAX", "glibc.malloc.arena_max"}})) {
    mallopt(M_ARENA_MAX, 1);
  }
  if (!environment_has({{nullptr, "glibc.malloc.hugetlb"}})) ask_for_huge_pages();
  is_prepared = true;
  return true;
#else
  (void)loader_threads;
  return false;
#endif
}

bool heap_is_prepared() { return is_prepared; }

void return_freed_memory() {
#ifdef __GLIBC__
  (void)::malloc_trim(kInHugePages);
#endif
}

}  // namespace troupe
