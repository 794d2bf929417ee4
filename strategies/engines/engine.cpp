#include "strategies/engines/engine.h"

#include <ATen/Functions.h>

namespace troupe::detail {

at::Tensor Engine::make_buffer(std::int64_t count, const at::TensorOptions& options) {
  return at::zeros({count}, options);
}

}  // namespace troupe::detail
