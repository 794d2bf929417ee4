#include "troupe/export/model_signature.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/file_system.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

using detail::ElementType;
using nlohmann::ordered_json;

constexpr std::array<std::pair<at::ScalarType, TypeName>, 10> kTypes = {{
    {at::kDouble, {"float64", "TYPE_FP64", ElementType::float64}},
    {at::kFloat, {"float32", "TYPE_FP32", ElementType::float32}},
    {at::kHalf, {"float16", "TYPE_FP16", ElementType::float16}},
    {at::kBFloat16, {"bfloat16", "TYPE_BF16", ElementType::bfloat16}},
    {at::kLong, {"int64", "TYPE_INT64", ElementType::int64}},
    {at::kInt, {"int32", "TYPE_INT32", ElementType::int32}},
    {at::kShort, {"int16", "TYPE_INT16", ElementType::int16}},
    {at::kChar, {"int8", "TYPE_INT8", ElementType::int8}},
    {at::kByte, {"uint8", "TYPE_UINT8", ElementType::uint8}},
    {at::kBool, {"bool", "TYPE_BOOL", ElementType::boolean}},
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

bool is_servable(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character) &&
         name.back() != '_' && name.find("__") == std::string::npos;
}

std::string section(const std::string& kind, const std::vector<TensorSignature>& tensors,
                    const std::vector<std::string>& names) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, dtype, shape] = tensors[i];
    const std::string dims = join(shape, ", ", [](std::int64_t size) { return text(size); });
    entries.push_back(text("\n  {\n    name: \"", names[i], "\"\n    data_type: ",
                           type_name(dtype, name).triton, "\n    dims: [ ", dims, " ]\n  }"));
  }
  return kind + " [" + join(entries, ",") + "\n]\n";
}

}  // namespace

TypeName type_name(at::ScalarType dtype, const std::string& what) {
  for (const auto& [type, name] : kTypes) {
    if (type == dtype) return name;
  }
  throw ConfigError(text(what, " is ", dtype, ", which an export cannot hold."),
                    "convert it to a real, integer or boolean type.");
}

std::string signature_json(const ModelSignature& signature, std::int64_t global_step,
                           ExportFormat format) {
  ordered_json document = {{"format", "troupe-export"}, {"version", 1}};
  if (format == ExportFormat::torch_script) document["method"] = "forward";
  document["inputs"] = to_json(signature.inputs);
  document["outputs"] = to_json(signature.outputs);
  document["default_output"] = signature.outputs.front().name;
  document["global_step"] = global_step;
  try {
    return document.dump(2) + "\n";
  } catch (const ordered_json::type_error&) {
    throw ConfigError("the name of an input or a prediction is not UTF-8.",
                      "use readable names for the features and for what predict_step returns.");
  }
}

std::vector<std::string> triton_names(const std::vector<TensorSignature>& tensors,
                                      const std::string& fallback, ExportFormat format) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    names.push_back(
        format == ExportFormat::onnx ? name : text(is_servable(name) ? name : fallback, "__", i));
  }
  return names;
}

std::string triton_config(const std::string& model_name, const ModelSignature& signature,
                          ExportFormat format) {
  const auto described = [&](const char* kind, const std::vector<TensorSignature>& tensors,
                             const char* fallback) {
    return section(kind, tensors, triton_names(tensors, fallback, format));
  };
  return text("name: \"", model_name, "\"\nplatform: \"",
              format == ExportFormat::onnx ? "onnxruntime_onnx" : "pytorch_libtorch",
              "\"\nmax_batch_size: 0\n", described("input", signature.inputs, "INPUT"),
              described("output", signature.outputs, "OUTPUT"));
}

}  // namespace troupe
