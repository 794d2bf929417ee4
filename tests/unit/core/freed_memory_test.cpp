#include "core/freed_memory.h"

#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/test_prelude.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1
#endif

namespace {

/// Pages that the kernel had to give for `steps` steps that allocate, write and free four blocks.
long faults_of(int steps, std::size_t mebibytes) {
  const std::size_t bytes = mebibytes << 20;
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  for (int step = 0; step < steps; ++step) {
    std::vector<std::unique_ptr<char[]>> tensors;
    for (int i = 0; i < 4; ++i) {
      tensors.emplace_back(new char[bytes]);
      std::memset(tensors.back().get(), step, bytes);
    }
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("freed_memory: what the environment says about malloc is respected") {
    for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_",
                             "MALLOC_TOP_PAD_"}) {
      CAPTURE(name);
      setenv(name, "131072", 1);
      CHECK_FALSE(troupe::keep_freed_memory());
      unsetenv(name);
    }
    setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.malloc.top_pad=4096", 1);
    CHECK_FALSE(troupe::keep_freed_memory());
    unsetenv("GLIBC_TUNABLES");
  }

#ifndef OTHER_ALLOCATOR
  TEST_CASE("freed_memory: a step's memory serves the next step, on every thread") {
    // Without it each step is given up to 40960 pages (of 4 KiB), or as many huge ones. 40 MiB are
    // more than the largest M_MMAP_THRESHOLD; a thread's heap has 64 MiB, and goes when it is
    // empty.
    REQUIRE(troupe::keep_freed_memory());
    (void)faults_of(2, 40);
    CHECK(faults_of(5, 40) < 200);
    long on_a_thread = -1;
    std::thread([&] {
      (void)faults_of(2, 20);
      on_a_thread = faults_of(5, 20);
    }).join();
    CHECK(on_a_thread < 200);
  }
#endif
}
