// CountedAllocator: LibTorch's allocator for the CPU, watched: it takes tensors' memory past
// operator new.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstring>

namespace troupe::testing {

class CountedAllocator final : public c10::Allocator {
 public:
  using Watch = void (*)(std::size_t bytes);

  /// Every allocation of this process, by any thread, is told to `watch` from now on, for good.
  static void install(Watch watch) {
    static CountedAllocator counted(c10::GetCPUAllocator());
    counted.watch_ = watch;
    c10::SetCPUAllocator(&counted, /*priority=*/255);
  }

  // Of these three, older and newer versions of LibTorch override different ones.
  // NOLINTBEGIN(modernize-use-override, cppcoreguidelines-explicit-virtual-functions)
  c10::DataPtr allocate(std::size_t bytes) const {
    watch_(bytes);
    return real_->allocate(bytes);
  }
  c10::DataPtr allocate(std::size_t bytes) {
    return static_cast<const CountedAllocator*>(this)->allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  // NOLINTEND(modernize-use-override, cppcoreguidelines-explicit-virtual-functions)
  c10::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }

 private:
  explicit CountedAllocator(c10::Allocator* real) : real_(real) {}

  c10::Allocator* real_;
  Watch watch_ = nullptr;
};

}  // namespace troupe::testing
