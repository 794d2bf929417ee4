// TorchScript from a C++ model: the module tree is mirrored with the same tensors, predict_step is
// traced, and what the trace gives is checked against the original before anybody sees it.
//
// Legend: B examples of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "troupe/export/model_signature.h"
#include "troupe/hooks/hooks.h"

namespace troupe {

/// Traces hooks.predict_step on `examples` (each [B, ...], B >= 2), writes the module to `path`, or
/// to memory where that is empty, which finds the same faults; reads it back and compares its
/// outputs with predict_step's at three batch sizes, 1 among them, bit for bit where possible and
/// to 1e-6 otherwise. The module takes the inputs in order and returns the single output, or a
/// tuple of all in order; it has the replica's names of parameters and buffers, and runs on the CPU
/// wherever the replica is. Leaves the default generators, the replica's mode and its metrics as
/// they were. Throws: ConfigError when the outputs do not depend on the batch size as they should
/// (a size baked into the trace) or the model draws random numbers, and where names, types or
/// shapes of inputs or outputs cannot be exported; EnvironmentError. Nothing is at `path` then.
ModelSignature write_torch_script(const Hooks& hooks, Replica& replica,
                                  const std::vector<NamedTensor>& examples,
                                  const std::string& path);

}  // namespace troupe
