// One step of an optimiser: LibTorch's operations in an order that reads memory once instead of
// once per operation (docs/training_step.md).
#pragma once

#include <string>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace troupe::detail {

/// As optimizer.step(), with the same bits in parameters and state. Adam and AdamW without amsgrad
/// go through large parameters on the CPU block by block, so that what one operation of LibTorch's
/// leaves is still in the cache for the next; everything else is optimizer.step().
/// Throws: what optimizer.step() throws.
/// Source: Kingma and Ba 2015, "Adam: a method for stochastic optimization"; Loshchilov and Hutter
/// 2019, "Decoupled weight decay regularization".
void step_by_blocks(torch::optim::Optimizer& optimizer);

/// Where the first update of an optimiser found no gradient for any of its `parameters` anywhere.
[[nodiscard]] ConfigError no_gradient(const std::string& optimizer,
                                      const std::vector<NamedTensor>& parameters);

}  // namespace troupe::detail
