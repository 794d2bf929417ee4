// The replicas of a process take what they make from memory of their own.
#include "troupe/strategies/replicas/replica_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/heap.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1
#endif

namespace {

using troupe::detail::prepare_replica_memory;
using troupe::detail::use_replica_memory;

constexpr std::int64_t kMebibyte = 1 << 20;

torch::Tensor bytes(std::int64_t count) { return torch::zeros({count}, torch::kUInt8); }

void on_a_thread(int part, const std::function<void()>& work) {
  std::thread([&] {
    use_replica_memory(part);
    work();
  }).join();
}

/// Of the mapping that `address` is in.
double gibibytes_around(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    if (begin <= wanted && wanted < end) return static_cast<double>(end - begin) / (1 << 30);
  }
  return 0;
}

/// A part is as long as the machine's memory.
bool is_in_a_part(const torch::Tensor& tensor) {
  const double machine = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
  return gibibytes_around(tensor.data_ptr()) > 0.9 * machine;
}

long faults_of(const std::function<void()>& work) {
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_THREAD, &before);
  work();
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

/// Notes where each replica's tensors lie.
class PlaceHooks final : public troupe::testing::TinyHooks {
 public:
  PlaceHooks() : TinyHooks(8) {}
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    apart_.at(static_cast<std::size_t>(replica.place().index)) = is_in_a_part(bytes(kMebibyte));
    return TinyHooks::train_step(replica, batch);
  }
  [[nodiscard]] std::array<bool, 3> apart() const { return apart_; }

 private:
  mutable std::array<bool, 3> apart_{};
};

}  // namespace

// What one case prepares, the next one finds: the process is one.
TEST_SUITE("strategies") {
  TEST_CASE("replica_memory: malloc left alone leaves LibTorch's allocator alone, too") {
    if (troupe::heap_is_prepared()) return;
    prepare_replica_memory(2);
    CHECK(c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator());
    on_a_thread(0, [] { CHECK_FALSE(is_in_a_part(bytes(kMebibyte))); });
  }

#ifndef OTHER_ALLOCATOR
  TEST_CASE("replica_memory: what a thread frees serves that thread alone") {
    REQUIRE(troupe::prepare_heap(1));
    prepare_replica_memory(2);
    const auto block = [] { return bytes(3 * kMebibyte).data_ptr(); };  // freed again
    void* first = nullptr;
    void* second = nullptr;
    on_a_thread(0, [&] { first = block(); });
    on_a_thread(1, [&] { second = block(); });
    CHECK(first != second);
    CHECK(block() != first);
    CHECK(block() != second);
    on_a_thread(1, [&] { CHECK(block() == second); });
    on_a_thread(0, [&] { CHECK(block() == first); });
    on_a_thread(2, [&] { CHECK(block() == first); });  // shared: there are two
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    CHECK_FALSE(is_in_a_part(bytes(kMebibyte)));  // of a thread that is no replica's
  }

  TEST_CASE("replica_memory: a block of any size is kept for the next step") {
    // A heap that glibc makes for a thread maps what is above 64 MiB anew, 25,600 pages of 4 KiB.
    REQUIRE(troupe::prepare_heap(1));
    prepare_replica_memory(2);
    on_a_thread(0, [] {
      const auto step = [] { (void)bytes(100 * kMebibyte); };
      step();
      CHECK(faults_of([&] {
              for (int i = 0; i < 5; ++i) step();
            }) < 100);
    });
  }

  TEST_CASE("replica_memory: a tensor may outlive its thread, and be freed by another") {
    REQUIRE(troupe::prepare_heap(1));
    const auto earlier = bytes(kMebibyte);
    void* const raw = c10::GetCPUAllocator()->raw_allocate(4096);
    prepare_replica_memory(2);
    c10::GetCPUAllocator()->raw_deallocate(raw);
    torch::Tensor made;
    on_a_thread(0, [&] { made = bytes(kMebibyte).fill_(7); });
    CHECK(is_in_a_part(made));
    CHECK(made.eq(7).all().item<bool>());
    void* const where = made.data_ptr();
    made = earlier;
    on_a_thread(0, [&] {
      CHECK(bytes(kMebibyte).data_ptr() == where);
      CHECK(bytes(0).numel() == 0);
      CHECK_THROWS_AS(bytes(std::int64_t{1} << 50), c10::Error);  // as ever: no such memory
    });
  }

  TEST_CASE("replica_memory: replicas of a process have it, but the one on the caller's thread") {
    REQUIRE(troupe::prepare_heap(1));
    const PlaceHooks hooks;
    const auto strategy = troupe::make_mirrored(troupe::testing::mirrored_options(3));
    (void)troupe::testing::train_with(*strategy, hooks, 1);
    CHECK(hooks.apart() == std::array<bool, 3>{false, true, true});
  }
#endif
}
