#include "troupe/hooks/make_datasets.h"

#include <ATen/CPUGeneratorImpl.h>

#include "troupe/core/user_code.h"
#include "troupe/data/data_digest.h"
#include "troupe/hooks/tensors/random_guard.h"

namespace troupe::detail {

Splits make_datasets(const Hooks& hooks, std::uint64_t seed) {
  const RandomGuard guard(c10::kCPU);
  // Apart from the seeds of initial weights and of steps.
  seed_random(at::detail::getDefaultCPUGenerator(), ExampleRandom(seed ^ 0x64617461736574u).next());
  return in_user_code(
      [&] {
        Splits splits = hooks.create_datasets();
        check_same_classes(splits);
        return splits;
      },
      [] { return "create_datasets failed"; });
}

}  // namespace troupe::detail
