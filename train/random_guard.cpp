#include "train/random_guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace troupe::detail {
namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

RandomGuard::RandomGuard(c10::Device device)
    : device_(device), cpu_(state_of(at::detail::getDefaultCPUGenerator())) {
  if (!device_.is_cpu()) other_ = state_of(at::globalContext().defaultGenerator(device_));
}

RandomGuard::~RandomGuard() {
  set_state(at::detail::getDefaultCPUGenerator(), cpu_);
  if (other_) set_state(at::globalContext().defaultGenerator(device_), *other_);
}

}  // namespace troupe::detail
