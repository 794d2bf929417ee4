// A tensor and its name.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/core/span.h"

namespace troupe {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// The tensors named "<prefix><rest>", as "<rest>".
[[nodiscard]] std::vector<NamedTensor> named_below(const std::vector<NamedTensor>& tensors,
                                                   const std::string& prefix);

namespace detail {

/// Every optimiser's parameters, by its name.
using OwnedTensors = std::vector<std::pair<std::string, std::vector<NamedTensor>>>;

/// Places in a list by the tensor itself. A tensor that the list has twice has its first place.
using PlaceOfTensor = std::unordered_map<const c10::TensorImpl*, std::size_t>;
[[nodiscard]] PlaceOfTensor place_of_tensor(const std::vector<NamedTensor>& tensors);
/// The list with each tensor once, where it comes first: a tensor has one name.
[[nodiscard]] std::vector<NamedTensor> each_once(const std::vector<NamedTensor>& tensors);

/// Writes the values of `from` into the tensors of `into`, which must match in number and shapes;
/// tensors that share memory are left alone.
void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& into);

/// The elements of a contiguous tensor on the host, as they lie in memory.
[[nodiscard]] Span<std::byte> host_bytes(const at::Tensor& tensor);

/// A tensor on the host with a copy of these elements, which may lie anywhere.
[[nodiscard]] at::Tensor host_tensor(Span<const std::byte> bytes, at::IntArrayRef sizes,
                                     at::ScalarType type);

/// Calls `change` with each tensor's elements on the host, and writes the changed elements back.
void change_on_host(const std::vector<NamedTensor>& tensors,
                    const std::function<void(Span<std::byte>)>& change);

/// "[2, 3]"; "undefined" where there is no tensor.
[[nodiscard]] std::string shape_text(const at::Tensor& tensor);

/// One line per tensor, "conv1.weight Float [32, 1, 3, 3] requires_grad": what workers must agree
/// on.
[[nodiscard]] std::vector<std::string> signature(const std::vector<NamedTensor>& tensors);

}  // namespace detail
}  // namespace troupe
