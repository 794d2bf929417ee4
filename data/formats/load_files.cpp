#include "troupe/data/formats/load_files.h"

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <utility>

#include "troupe/data/formats/npy.h"
#include "troupe/data/tensor_memory.h"

namespace troupe {
namespace {

/// LibTorch's type for each of NpyType, in their order.
constexpr std::array<at::ScalarType, 9> kTypesOfNpy = {at::kBool,  at::kByte,  at::kChar,
                                                       at::kShort, at::kInt,   at::kLong,
                                                       at::kHalf,  at::kFloat, at::kDouble};

at::Tensor tensor_of(NpyArray array) {
  static_assert(kTypesOfNpy.size() == static_cast<std::size_t>(NpyType::float64) + 1);
  return detail::adopt(std::move(array.bytes), array.dims,
                       kTypesOfNpy[static_cast<std::size_t>(array.type)]);
}

}  // namespace

std::shared_ptr<const Dataset> load_csv(const std::filesystem::path& path,
                                        const std::vector<std::vector<CsvColumn>>& fields,
                                        char separator) {
  CsvTable table = read_csv(path, fields, separator);
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::vector<std::int64_t> shape = {table.rows};
    if (fields[i].size() > 1) shape.push_back(static_cast<std::int64_t>(fields[i].size()));
    tensors.push_back(std::visit(
        [&](auto& values) {
          using Value = typename std::decay_t<decltype(values)>::value_type;
          return detail::adopt(std::move(values), shape, c10::CppTypeToScalarType<Value>::value);
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
