#include "tensors/tensor_file.h"

#include <torch/types.h>

#include <array>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "tensors/safetensors.h"

namespace troupe {
namespace {

constexpr std::array<std::pair<at::ScalarType, TensorType>, 10> kTypes = {{
    {at::kDouble, TensorType::f64},
    {at::kFloat, TensorType::f32},
    {at::kHalf, TensorType::f16},
    {at::kBFloat16, TensorType::bf16},
    {at::kLong, TensorType::i64},
    {at::kInt, TensorType::i32},
    {at::kShort, TensorType::i16},
    {at::kChar, TensorType::i8},
    {at::kByte, TensorType::u8},
    {at::kBool, TensorType::boolean},
}};

TensorType to_file(const std::string& name, at::ScalarType type) {
  for (const auto& [torch_type, file_type] : kTypes) {
    if (torch_type == type) return file_type;
  }
  throw ConfigError(text("tensor \"", name, "\" is ", type, ", which a checkpoint cannot hold."),
                    "keep it in a real or integer type.");
}

at::ScalarType to_torch(TensorType type) {
  for (const auto& [torch_type, file_type] : kTypes) {
    if (file_type == type) return torch_type;
  }
  return at::kByte;  // every TensorType is in the table
}

}  // namespace

std::vector<std::byte> write_tensors(const std::vector<NamedTensor>& tensors) {
  SafetensorsContent content;
  std::vector<at::Tensor> on_host;  // keeps the bytes alive
  for (const auto& [name, tensor] : tensors) {
    on_host.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& host = on_host.back();
    content.tensors.push_back({name,
                               to_file(name, host.scalar_type()),
                               host.sizes().vec(),
                               {static_cast<const std::byte*>(host.data_ptr()), host.nbytes()}});
  }
  std::vector<std::byte> file;
  write_safetensors(content, [&](Span<const std::byte> bytes) {
    file.insert(file.end(), bytes.begin(), bytes.end());
  });
  return file;
}

std::vector<NamedTensor> read_tensors(Span<const std::byte> file, const std::string& shown) {
  std::vector<NamedTensor> tensors;
  for (const TensorView& view : read_safetensors(file, shown).tensors) {
    at::Tensor tensor = torch::empty(view.shape, at::TensorOptions(to_torch(view.dtype)));
    if (view.bytes.size() > 0) {
      std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
    }
    tensors.emplace_back(view.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace troupe
