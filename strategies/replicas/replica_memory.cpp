#include "troupe/strategies/replicas/replica_memory.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "troupe/core/heap.h"

namespace troupe::detail {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 64;  // c10::gAlignment

/// Locks itself; lies at the beginning of the range that it divides up.
using PartOfReplica =
    boost::interprocess::rbtree_best_fit<boost::interprocess::mutex_family, void*, kAlignment>;

thread_local int t_part = -1;  // -1: this thread has none

class PartsOfReplicas {
 public:
  /// None where the system gives no addresses.
  explicit PartsOfReplicas(int count) : bytes_(machine_memory()) {
    const std::size_t all = bytes_ * static_cast<std::size_t>(count) + kHugePage;
    void* const range = ::mmap(nullptr, all, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return;
    (void)::madvise(range, all, MADV_DONTDUMP);  // a dump would look at every page
    auto* const begin = static_cast<std::byte*>(range);
    begin_ = begin + (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage);
    count_ = count;
    for (int i = 0; i < count; ++i) {
      // But for the last one, of which the end mark takes a few bytes.
      (void)::madvise(at(i), bytes_ - kHugePage, MADV_HUGEPAGE);
      new (at(i)) PartOfReplica(bytes_, 0);
    }
  }

  [[nodiscard]] bool empty() const { return count_ == 0; }

  /// Null: full.
  void* allocate(int index, std::size_t bytes) {
    return bytes < bytes_ ? part(index % count_).allocate(bytes) : nullptr;
  }

  /// False: it is not from here.
  bool free(void* block) {
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(begin_);
    const std::uintptr_t index = offset / bytes_;  // a block below begin_ has a large one
    if (index >= static_cast<std::uintptr_t>(count_)) return false;
    part(static_cast<int>(index)).deallocate(block);
    return true;
  }

 private:
  static std::size_t machine_memory() {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes / kHugePage + 1) * kHugePage;
  }

  [[nodiscard]] std::byte* at(int index) const {
    return begin_ + static_cast<std::size_t>(index) * bytes_;
  }
  [[nodiscard]] PartOfReplica& part(int index) {
    return *std::launder(reinterpret_cast<PartOfReplica*>(at(index)));
  }

  std::size_t bytes_;  // of a part
  std::byte* begin_ = nullptr;
  int count_ = 0;
};

PartsOfReplicas* parts_of_replicas =
    nullptr;  // lives as long as the process: tensors may outlive every strategy

void free_block(void* block) {
  if (!parts_of_replicas->free(block)) c10::GetDefaultCPUAllocator()->raw_deallocate(block);
}

/// What c10::Allocator asks for differs from LibTorch to LibTorch (allocate() is const up to 2.2,
/// copy_data() is asked for from 2.1 on), hence no `override`.
class ReplicaAllocator final : public c10::Allocator {
 public:
  // NOLINTBEGIN(modernize-use-override)
  c10::DataPtr allocate(std::size_t bytes) { return make(bytes); }
  c10::DataPtr allocate(std::size_t bytes) const { return make(bytes); }
  // Blocks that were made before this allocator was there come here, too.
  c10::DeleterFnPtr raw_deleter() const { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  // NOLINTEND(modernize-use-override)

 private:
  static c10::DataPtr make(std::size_t bytes) {
    if (t_part >= 0 && bytes > 0) {
      if (void* const block = parts_of_replicas->allocate(t_part, bytes)) {
        return {block, block, &free_block, c10::Device(c10::kCPU)};
      }
    }
    c10::Allocator* const libtorchs = c10::GetDefaultCPUAllocator();
    c10::DataPtr made = libtorchs->allocate(bytes);
    (void)made.compare_exchange_deleter(libtorchs->raw_deleter(), &free_block);
    return made;
  }
};

}  // namespace

void prepare_replica_memory(int threads) {
  if (threads < 1 || parts_of_replicas != nullptr || !heap_is_prepared() ||
      c10::GetCPUAllocator() != c10::GetDefaultCPUAllocator()) {
    return;
  }
  auto made = std::make_unique<PartsOfReplicas>(threads);
  if (made->empty()) return;
  parts_of_replicas = made.release();
  static ReplicaAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

void use_replica_memory(int index) {
  if (parts_of_replicas != nullptr) t_part = index;
}

}  // namespace troupe::detail
