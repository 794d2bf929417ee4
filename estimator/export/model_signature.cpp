#include "estimator/export/model_signature.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<at::ScalarType, TypeName>, 10> kTypes = {{
    {at::kDouble, {"float64", "TYPE_FP64"}},
    {at::kFloat, {"float32", "TYPE_FP32"}},
    {at::kHalf, {"float16", "TYPE_FP16"}},
    {at::kBFloat16, {"bfloat16", "TYPE_BF16"}},
    {at::kLong, {"int64", "TYPE_INT64"}},
    {at::kInt, {"int32", "TYPE_INT32"}},
    {at::kShort, {"int16", "TYPE_INT16"}},
    {at::kChar, {"int8", "TYPE_INT8"}},
    {at::kByte, {"uint8", "TYPE_UINT8"}},
    {at::kBool, {"bool", "TYPE_BOOL"}},
}};

ordered_json to_json(const std::vector<TensorSignature>& tensors) {
  ordered_json list = ordered_json::array();
  for (const TensorSignature& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"dtype", type_name(tensor.dtype, tensor.name).numpy},
                    {"shape", tensor.shape}});
  }
  return list;
}

}  // namespace

TypeName type_name(at::ScalarType dtype, const std::string& what) {
  for (const auto& [type, name] : kTypes) {
    if (type == dtype) return name;
  }
  throw ConfigError(text(what, " is ", dtype, ", which an export cannot hold."),
                    "convert it to a real, integer or boolean type.");
}

std::string signature_json(const ModelSignature& signature, std::int64_t global_step) {
  const ordered_json document = {{"format", "troupe-export"},
                                 {"version", 1},
                                 {"method", "forward"},
                                 {"inputs", to_json(signature.inputs)},
                                 {"outputs", to_json(signature.outputs)},
                                 {"default_output", signature.outputs.front().name},
                                 {"global_step", global_step}};
  try {
    return document.dump(2) + "\n";
  } catch (const ordered_json::type_error&) {
    throw ConfigError("the name of an input or a prediction is not UTF-8.",
                      "use readable names for the features and for what predict_step returns.");
  }
}

}  // namespace troupe
