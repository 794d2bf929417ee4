#include "troupe/hooks/tensors/tensor_file.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// LibTorch's type for each of the file's, in their order.
constexpr std::array<at::ScalarType, 10> kTypes = {
    at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
    at::kInt,    at::kShort, at::kChar, at::kByte,     at::kBool};
static_assert(kTypes.size() == static_cast<std::size_t>(TensorType::boolean) + 1);

TensorType to_file(const std::string& name, at::ScalarType type) {
  const auto* const found = std::find(kTypes.begin(), kTypes.end(), type);
  if (found != kTypes.end()) return static_cast<TensorType>(found - kTypes.begin());
  throw ConfigError(text("tensor \"", name, "\" is ", type, ", which a checkpoint cannot hold."),
                    "keep it in a real or integer type.");
}

at::ScalarType to_torch(TensorType type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

void write_tensors(const std::vector<NamedTensor>& tensors, const ByteSink& sink,
                   const TensorTexts& texts) {
  SafetensorsContent content{{}, texts};
  std::vector<at::Tensor> on_host;  // keeps the bytes alive
  for (const auto& [name, tensor] : tensors) {
    on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& host = on_host.back();
    content.tensors.push_back(
        {name, to_file(name, host.scalar_type()), host.sizes().vec(), detail::host_bytes(host)});
  }
  write_safetensors(content, sink);
}

std::vector<std::byte> write_tensors(const std::vector<NamedTensor>& tensors,
                                     const TensorTexts& texts) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  std::vector<std::byte> file;
  const auto append = [&](Span<const std::byte> piece) {
    if (file.empty()) file.reserve(piece.size() + bytes);  // the header comes first
    file.insert(file.end(), piece.begin(), piece.end());
  };
  write_tensors(tensors, append, texts);
  return file;
}

std::vector<NamedTensor> read_tensors(std::vector<std::byte> file, const std::string& shown,
                                      TensorTexts* texts) {
  const auto owner = std::make_shared<std::vector<std::byte>>(std::move(file));
  SafetensorsContent content = read_safetensors(*owner, shown);
  if (texts != nullptr) *texts = std::move(content.metadata);
  std::vector<NamedTensor> tensors;
  for (const TensorView& view : content.tensors) {
    const at::TensorOptions type(to_torch(view.dtype));
    auto* const data = owner->data() + (view.bytes.data() - owner->data());
    const bool aligned = reinterpret_cast<std::uintptr_t>(data) % bytes_of(view.dtype) == 0;
    if (aligned && !view.bytes.empty()) {
      tensors.emplace_back(view.name, torch::from_blob(
                                          data, view.shape, [owner](void*) {}, type));
      continue;
    }
    // As another writer may have placed it.
    tensors.emplace_back(view.name,
                         detail::host_tensor(view.bytes, view.shape, to_torch(view.dtype)));
  }
  return tensors;
}

}  // namespace troupe
