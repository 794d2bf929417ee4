// A tensor and what it is called.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

namespace troupe {

using NamedTensor = std::pair<std::string, at::Tensor>;

}  // namespace troupe
