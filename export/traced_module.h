// A C++ model as a TorchScript module.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "troupe/export/predictor.h"
#include "troupe/hooks/hooks.h"

namespace troupe::detail {

/// A module with the tensors of the replica's models, by the same names as Replica::parameters and
/// buffers, whose forward is the trace of `predictor` on `inputs`: one output, or a tuple.
/// Equal models give equal modules, type names included.
/// Throws: ConfigError where a model cannot be traced.
[[nodiscard]] torch::jit::Module trace_module(const Predictor& predictor,
                                              const std::vector<NamedTensor>& inputs);

/// The sentence of LibTorch's message that says what is wrong, without its stack.
[[nodiscard]] std::string torch_reason(const std::exception& error);

}  // namespace troupe::detail
