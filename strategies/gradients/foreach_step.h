// A step of an optimiser on a device other than the host, where a launch costs more than the
// arithmetic of most parameters: one operation of LibTorch's for all parameters instead of one for
// each.
#pragma once

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace troupe::detail {

/// Takes the step of LibTorch's SGD, Adam and AdamW without amsgrad, whose gradients are dense and
/// whose parameters are listed once.
/// Returns false, and does nothing, for another optimiser. The numbers are those of
/// optimizer.step(), up to the rounding of a device's kernels.
[[nodiscard]] bool step_by_foreach(torch::optim::Optimizer& optimizer);

}  // namespace troupe::detail
