#include "strategies/replicas/random_layers.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <cctype>

namespace troupe::detail {
namespace {

bool looks_random(const torch::nn::Module& module) {
  std::string type = module.name();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  type = type.substr(type.rfind(':') + 1);  // without namespaces
  return type.find("drop") != std::string::npos || type.find("rrelu") != std::string::npos;
}

}  // namespace

std::string random_layer(const Replica& replica) {
  for (const auto& [model_name, model] : replica.models()) {
    for (const auto& item : model->named_modules(model_name)) {
      if (looks_random(*item.value())) return item.key();
    }
  }
  return "";
}

}  // namespace troupe::detail
