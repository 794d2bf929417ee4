// Stale steps: how large a step an optimiser may take with a gradient that comes late.
//
// A gradient that misses n - 1 updates acts like momentum, and diverges with steps that suit one
// device. So the rate that the step has in the long run, rate / (1 - momentum), is divided by n:
// the gradient's own delay stands in for a part of the momentum, which is lowered for it, and where
// there is no more of that, the rate is.
// Source: Zhang, Gupta, Lian, Liu 2016, "Staleness-aware async-SGD for distributed deep learning"
// (rate / n); Mitliagkas et al. 2016, "Asynchrony begets momentum, with an application to deep
// learning" (n workers add momentum of 1 - 1/n). Measured: docs/parameter_servers.md.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>

namespace troupe::detail {

struct StepSize {
  double rate = 0;
  double momentum = 0;
};

/// What `given`, which suits one device, becomes where `missed` updates came between the read of
/// the values and the step; 0: `given` itself. Momentum that is given never becomes 0, with which
/// LibTorch would leave its sums as they are.
[[nodiscard]] StepSize size_for_stale(StepSize given, std::int64_t missed);

/// Such a step: afterwards the optimiser's rates and, where its kind has any, momenta are the given
/// ones again. Throws: what optimizer.step() throws; the server ends by it.
void step_stale(torch::optim::Optimizer& optimizer, std::int64_t missed);

}  // namespace troupe::detail
