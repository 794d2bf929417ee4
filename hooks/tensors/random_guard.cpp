#include "troupe/hooks/tensors/random_guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

namespace troupe::detail {

RandomGuard::RandomGuard(c10::Device device)
    : device_(device), cpu_(random_state(at::detail::getDefaultCPUGenerator())) {
  if (!device_.is_cpu()) other_ = random_state(at::globalContext().defaultGenerator(device_));
}

RandomGuard::~RandomGuard() {
  set_random_state(at::detail::getDefaultCPUGenerator(), cpu_);
  if (other_) set_random_state(at::globalContext().defaultGenerator(device_), *other_);
}

}  // namespace troupe::detail
