// Tensors over memory that is there already.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

namespace troupe::detail {

/// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
template <class Value>
[[nodiscard]] at::Tensor adopt(std::vector<Value> values, at::IntArrayRef shape,
                               at::ScalarType type) {
  auto* const owner = new std::vector<Value>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, type);
}

/// Makes `out` a contiguous tensor on the host, keeping it where it is such a one.
inline void make_room(at::Tensor& out, at::IntArrayRef shape, at::ScalarType type) {
  const bool fits = out.defined() && out.sizes() == shape && out.scalar_type() == type &&
                    out.is_cpu() && out.is_contiguous();
  if (!fits) out = at::empty(shape, type);
}

}  // namespace troupe::detail
