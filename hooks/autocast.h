// LibTorch's autocast for one scope: operations that lose nothing by it compute in bfloat16,
// parameters stay float32. The one file that knows how its functions changed between versions.
//
// Threads: autocast is a thread's own; so are these objects.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "options/strategy_options.h"

namespace troupe::detail {

/// On for a device, as long as it lives. Casts of parameters are not kept: LibTorch would give one
/// made without gradients (a GAN that draws its pictures so) to a later forward pass, whose
/// parameters then got no gradient.
class Autocast {
 public:
  /// Nothing happens for float32.
  Autocast(c10::Device device, Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const c10::DeviceType device_;
  const bool on_;
  bool was_on_ = false;
  bool kept_casts_ = true;
  at::ScalarType former_ = at::kFloat;
};

/// Off for a device, as long as it lives, and as it was afterwards: around backward passes and
/// optimisers. Casts of parameters, which the optimiser changes, are forgotten.
class AutocastPause {
 public:
  explicit AutocastPause(c10::Device device);
  ~AutocastPause();
  AutocastPause(const AutocastPause&) = delete;
  AutocastPause& operator=(const AutocastPause&) = delete;

 private:
  const c10::DeviceType device_;
  const bool was_on_;
};

/// `value` in float32 when autocast made it smaller, else itself.
[[nodiscard]] at::Tensor in_float32(const at::Tensor& value);

/// Warns when the device has no fast bfloat16. Throws: ConfigError when it has none at all.
void check_precision(c10::Device device, Precision precision);

}  // namespace troupe::detail
