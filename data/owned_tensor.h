// Tensors whose memory the loader may write over: nothing else refers to them any more.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::detail {

/// Whether `tensor` is defined and its holder alone has it and its memory: no copy, no view, and
/// nothing that autograd knows of. A sole holder cannot lose it meanwhile.
[[nodiscard]] inline bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.defined() && tensor.use_count() == 1 && tensor.has_storage() &&
         tensor.storage().use_count() == 1 &&
         tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr;
}

}  // namespace troupe::detail
