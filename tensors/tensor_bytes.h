// Tensors as bytes: for copying a state to other workers and for its fingerprint.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/span.h"
#include "tensors/named_tensor.h"

namespace troupe::detail {

/// The tensors' elements one after the other, in order, as they lie in memory.
[[nodiscard]] std::vector<std::byte> pack(const std::vector<NamedTensor>& tensors);
/// Writes what pack() read back into the same tensors.
void unpack(Span<const std::byte> bytes, const std::vector<NamedTensor>& tensors);

/// One line per tensor, "conv1.weight Float [32, 1, 3, 3] requires_grad": what workers must agree
/// on.
[[nodiscard]] std::vector<std::string> signature(const std::vector<NamedTensor>& tensors);

}  // namespace troupe::detail
