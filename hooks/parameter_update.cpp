#include "hooks/parameter_update.h"

#include <torch/optim/optimizer.h>

namespace troupe {

void ParameterUpdate::begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                                     const Backward& /*backward*/) {}

void ParameterUpdate::step(const std::string& /*name*/, torch::optim::Optimizer& optimizer,
                           const std::vector<NamedTensor>& /*parameters*/) {
  optimizer.step();
}

void ParameterUpdate::sum(const at::Tensor& /*flat*/, const std::string& /*what*/) {}

}  // namespace troupe
