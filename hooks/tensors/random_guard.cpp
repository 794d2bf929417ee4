#include "troupe/hooks/tensors/random_guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace troupe::detail {

at::Tensor random_state(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

void seed_random(at::Generator generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

RandomGuard::RandomGuard(c10::Device device)
    : device_(device), cpu_(random_state(at::detail::getDefaultCPUGenerator())) {
  if (!device_.is_cpu()) other_ = random_state(at::globalContext().defaultGenerator(device_));
}

RandomGuard::~RandomGuard() {
  set_random_state(at::detail::getDefaultCPUGenerator(), cpu_);
  if (other_) set_random_state(at::globalContext().defaultGenerator(device_), *other_);
}

}  // namespace troupe::detail
