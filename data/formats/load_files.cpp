#include "troupe/data/formats/load_files.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <utility>

#include "troupe/core/check.h"
#include "troupe/data/formats/npy.h"

namespace troupe {
namespace {

/// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
template <class Value>
at::Tensor adopt(std::vector<Value> values, const std::vector<std::int64_t>& shape,
                 at::ScalarType type) {
  auto* const owner = new std::vector<Value>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, type);
}

at::ScalarType type_of(NpyType type) {
  switch (type) {
    case NpyType::boolean:
      return at::kBool;
    case NpyType::uint8:
      return at::kByte;
    case NpyType::int8:
      return at::kChar;
    case NpyType::int16:
      return at::kShort;
    case NpyType::int32:
      return at::kInt;
    case NpyType::int64:
      return at::kLong;
    case NpyType::float16:
      return at::kHalf;
    case NpyType::float32:
      return at::kFloat;
    case NpyType::float64:
      return at::kDouble;
  }
  TROUPE_CHECK(!"a value outside NpyType");
  return at::kByte;
}

at::Tensor tensor_of(NpyArray array) {
  return adopt(std::move(array.bytes), array.dims, type_of(array.type));
}

}  // namespace

std::shared_ptr<const Dataset> load_csv(const std::filesystem::path& path,
                                        const std::vector<CsvField>& fields, char separator) {
  CsvTable table = read_csv(path, fields, separator);
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::vector<std::int64_t> shape = {table.rows};
    if (fields[i].size() > 1) shape.push_back(static_cast<std::int64_t>(fields[i].size()));
    tensors.push_back(std::visit(
        [&](auto& values) {
          using Value = typename std::decay_t<decltype(values)>::value_type;
          return adopt(std::move(values), shape, c10::CppTypeToScalarType<Value>::value);
        },
        table.fields[i]));
  }
  return std::make_shared<TensorDataset>(std::move(tensors));
}

at::Tensor load_npy(const std::filesystem::path& path) { return tensor_of(read_npy(path)); }

std::map<std::string, at::Tensor> load_npz(const std::filesystem::path& path) {
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, array] : read_npz(path)) tensors.emplace(name, tensor_of(std::move(array)));
  return tensors;
}

}  // namespace troupe
