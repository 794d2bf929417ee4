#include "core/freed_memory.h"

#include <malloc.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace troupe {
namespace {

constexpr int kGrowth = 32 << 20;  // of a heap at a time; pages count when they are touched

bool environment_decides() {
  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_TOP_PAD_"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables == nullptr) return false;
  for (const char* name : {"glibc.malloc.mmap_threshold", "glibc.malloc.mmap_max",
                           "glibc.malloc.trim_threshold", "glibc.malloc.top_pad"}) {
    if (std::strstr(tunables, name) != nullptr) return true;
  }
  return false;
}

}  // namespace

bool keep_freed_memory() {
#ifdef __GLIBC__
  if (environment_decides()) return false;
  // All three: either of the last two alone would only end glibc's own adaptation. No mappings at
  // all instead of a higher M_MMAP_THRESHOLD: that ends at 32 MiB, and a
  // gradient of 3072 x 3072 floats is larger.
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 &&
         mallopt(M_TOP_PAD, kGrowth) == 1;
#else
  return false;
#endif
}

}  // namespace troupe
