// RandomGuard: what happens while it lives leaves LibTorch's random streams as they were.
// Evaluation and export in the middle of training must not change what training draws next.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <mutex>
#include <optional>

namespace troupe::detail {

/// The state of a generator: of the CPU's [5056] uint8.
[[nodiscard]] inline at::Tensor random_state(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}
inline void set_random_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}
inline void seed_random(at::Generator generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

class RandomGuard {
 public:
  /// Guards the CPU's default generator, and that of `device` where it is another.
  explicit RandomGuard(c10::Device device = c10::Device(c10::DeviceType::CPU));
  ~RandomGuard();
  RandomGuard(const RandomGuard&) = delete;
  RandomGuard& operator=(const RandomGuard&) = delete;

 private:
  c10::Device device_;
  at::Tensor cpu_;
  std::optional<at::Tensor> other_;
};

}  // namespace troupe::detail
