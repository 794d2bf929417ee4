#include "tensors/tensor_bytes.h"

#include <torch/types.h>

#include <cstring>

#include "core/check.h"

namespace troupe::detail {

std::vector<std::byte> pack(const std::vector<NamedTensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(torch::kCPU).contiguous();
    const auto* data = static_cast<const std::byte*>(host.data_ptr());
    bytes.insert(bytes.end(), data, data + host.nbytes());
  }
  return bytes;
}

void unpack(Span<const std::byte> bytes, const std::vector<NamedTensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    at::Tensor host = torch::empty(tensor.sizes(), tensor.options().device(torch::kCPU));
    TROUPE_CHECK(offset + host.nbytes() <= bytes.size());
    if (host.nbytes() > 0) std::memcpy(host.data_ptr(), bytes.data() + offset, host.nbytes());
    offset += host.nbytes();
    at::Tensor target = tensor;
    target.copy_(host);
  }
  TROUPE_CHECK_EQ(offset, bytes.size());
}

std::vector<std::string> signature(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : tensors) {
    lines.push_back(text(name, " ", tensor.scalar_type(), " ", tensor.sizes(),
                         tensor.requires_grad() ? " requires_grad" : ""));
  }
  return lines;
}

}  // namespace troupe::detail
