#include "estimator/export/triton_config.h"

#include <algorithm>

#include "core/text.h"

namespace troupe {
namespace {

bool is_servable(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain) && name.back() != '_' &&
         name.find("__") == std::string::npos;
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::string list;
  for (const std::int64_t size : shape) list += (list.empty() ? " " : ", ") + text(size);
  return "[" + list + " ]";
}

std::string section(const std::string& kind, const std::vector<TensorSignature>& tensors,
                    const std::vector<std::string>& names) {
  std::string entries;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    entries += text(entries.empty() ? "" : ",", "\n  {\n    name: \"", names[i],
                    "\"\n    data_type: ", type_name(tensors[i].dtype, tensors[i].name).triton,
                    "\n    dims: ", shown(tensors[i].shape), "\n  }");
  }
  return kind + " [" + entries + "\n]\n";
}

}  // namespace

std::vector<std::string> triton_names(const std::vector<TensorSignature>& tensors,
                                      const std::string& fallback) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    names.push_back(text(is_servable(tensors[i].name) ? tensors[i].name : fallback, "__", i));
  }
  return names;
}

std::string triton_config(const std::string& model_name, const ModelSignature& signature) {
  return text("name: \"", model_name, "\"\nplatform: \"pytorch_libtorch\"\nmax_batch_size: 0\n",
              section("input", signature.inputs, triton_names(signature.inputs, "INPUT")),
              section("output", signature.outputs, triton_names(signature.outputs, "OUTPUT")));
}

}  // namespace troupe
