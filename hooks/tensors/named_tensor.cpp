#include "troupe/hooks/tensors/named_tensor.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cstring>
#include <unordered_set>

#include "troupe/core/check.h"
#include "troupe/core/text.h"

namespace troupe {

std::vector<NamedTensor> named_below(const std::vector<NamedTensor>& tensors,
                                     const std::string& prefix) {
  std::vector<NamedTensor> below;
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(prefix, 0) == 0) below.emplace_back(name.substr(prefix.size()), tensor);
  }
  return below;
}

namespace detail {

PlaceOfTensor place_of_tensor(const std::vector<NamedTensor>& tensors) {
  PlaceOfTensor places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places.emplace(tensors[i].second.unsafeGetTensorImpl(), i);
  }
  return places;
}

std::vector<NamedTensor> each_once(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::vector<NamedTensor> once;
  for (const NamedTensor& tensor : tensors) {
    if (seen.insert(tensor.second.unsafeGetTensorImpl()).second) once.push_back(tensor);
  }
  return once;
}

void copy_values(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& into) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const at::Tensor& own = into[i].second;
    if (!own.is_alias_of(from[i].second)) own.copy_(from[i].second);
  }
}

Span<std::byte> host_bytes(const at::Tensor& tensor) {
  TROUPE_CHECK(tensor.is_cpu() && tensor.is_contiguous());
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::Tensor host_tensor(Span<const std::byte> bytes, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor tensor = at::empty(sizes, type);
  TROUPE_CHECK_EQ(tensor.nbytes(), bytes.size());
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void change_on_host(const std::vector<NamedTensor>& tensors,
                    const std::function<void(Span<std::byte>)>& change) {
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor value = tensor.detach();
    const at::Tensor host = value.to(at::kCPU).contiguous();
    change(host_bytes(host));
    if (host.data_ptr() != value.data_ptr()) value.copy_(host);
  }
}

std::string shape_text(const at::Tensor& tensor) {
  return tensor.defined() ? text(tensor.sizes()) : "undefined";
}

std::vector<std::string> signature(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : tensors) {
    lines.push_back(text(name, " ", tensor.scalar_type(), " ", tensor.sizes(),
                         tensor.requires_grad() ? " requires_grad" : ""));
  }
  return lines;
}

}  // namespace detail
}  // namespace troupe
