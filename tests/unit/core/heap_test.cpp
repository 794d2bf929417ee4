#include "troupe/core/heap.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/test_prelude.h"

namespace heap_test {

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

/// The flags of the mapping that `address` is in, as /proc/self/smaps has them; empty: it has none.
std::string flags_of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-') {
      here = begin <= wanted && wanted < end;
    }
    if (here && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

long resident_mebibytes() {
  std::ifstream statm("/proc/self/statm");
  long all = 0;
  long resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

/// Heaps of this process: one, and those that its threads have made.
int heaps() {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = open_memstream(&text, &size);
  malloc_info(0, stream);
  std::fclose(stream);
  int count = 0;
  for (const char* at = text; (at = std::strstr(at, "<heap nr=")) != nullptr; ++at) ++count;
  std::free(text);
  return count;
}

/// Of a block that another thread allocates, whether it lies in the process's heap.
bool is_in_the_heap_on_a_thread() {
  bool is_there = false;
  std::thread([&] {
    const std::unique_ptr<char[]> block(new char[1 << 20]);
    is_there = static_cast<void*>(block.get()) < sbrk(0);
  }).join();
  return is_there;
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("heap: what the environment says about malloc is respected") {
    for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_",
                             "MALLOC_TOP_PAD_"}) {
      CAPTURE(name);
      setenv(name, "131072", 1);
      CHECK_FALSE(troupe::prepare_heap(1));
      unsetenv(name);
    }
    setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.malloc.top_pad=4096", 1);
    CHECK_FALSE(troupe::prepare_heap(1));
    unsetenv("GLIBC_TUNABLES");
  }

#ifndef OTHER_ALLOCATOR
  TEST_CASE("heap: a step's memory serves the next step, on every thread") {
    // Without it each step is given up to 40960 pages (of 4 KiB), or as many huge ones. 40 MiB are
    // more than the largest M_MMAP_THRESHOLD; a thread's heap has 64 MiB, and goes when it is
    // empty.
    REQUIRE(troupe::prepare_heap(1));
    (void)faults_of(2, 40);
    CHECK(faults_of(5, 40) < 200);
    long on_a_thread = -1;
    std::thread([&] {
      (void)faults_of(2, 20);
      on_a_thread = faults_of(5, 20);
    }).join();
    CHECK(on_a_thread < 200);
  }

  TEST_CASE("heap: what is allocated from now on may lie in huge pages") {
    const std::unique_ptr<char[]> earlier(new char[1 << 20]);
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage") ||
        flags_of(earlier.get()).empty()) {
      MESSAGE("this kernel has no huge pages, or does not say where");
      return;
    }
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0", 1);
    const void* const end = sbrk(0);
    REQUIRE(troupe::prepare_heap(1));
    CHECK(sbrk(0) == end);
    unsetenv("GLIBC_TUNABLES");
    REQUIRE(troupe::prepare_heap(1));
    const std::unique_ptr<char[]> block(new char[100 << 20]);
    CHECK(flags_of(block.get() + (50 << 20)).find(" hg ") != std::string::npos);
  }

  TEST_CASE("heap: what was freed in the midst of it goes back to the kernel on request") {
    REQUIRE(troupe::prepare_heap(1));
    std::unique_ptr<char[]> block(new char[64 << 20]);
    std::memset(block.get(), 1, 64 << 20);
    const std::unique_ptr<char[]> behind(new char[1 << 20]);
    std::memset(behind.get(), 1, 1 << 20);
    block.reset();
    const long before = resident_mebibytes();
    troupe::return_freed_memory();
    CHECK(resident_mebibytes() <= before - 60);
    CHECK(behind[0] == 1);
  }

  // A heap that an earlier test's thread has left would serve the next one. ctest runs every case
  // in a process of its own.
  TEST_CASE("heap: loader threads share it") {
    if (heaps() > 1) {
      MESSAGE("not the first case of this process");
      return;
    }
    REQUIRE(troupe::prepare_heap(2));
    CHECK(is_in_the_heap_on_a_thread());
  }

  TEST_CASE("heap: whether threads share it the environment may decide") {
    if (heaps() > 1) {
      MESSAGE("not the first case of this process");
      return;
    }
    setenv("MALLOC_ARENA_MAX", "4", 1);
    REQUIRE(troupe::prepare_heap(2));
    CHECK_FALSE(is_in_the_heap_on_a_thread());
    unsetenv("MALLOC_ARENA_MAX");
  }
#endif
}

}  // namespace heap_test
