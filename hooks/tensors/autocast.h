// LibTorch's autocast for one scope: operations that lose nothing by it compute in bfloat16, but
// parameters stay float32. The only file that knows how its functions differ between versions.
//
// Threads: autocast is per thread; so are these objects.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "troupe/core/options/strategy_options.h"

namespace troupe::detail {

/// Switches autocast on for a device while it lives. Casts of parameters are not cached: LibTorch
/// would reuse one made without gradients (as when a GAN generates its pictures) in a later forward
/// pass, whose parameters would then get no gradient.
class Autocast {
 public:
  /// Does nothing for float32.
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

/// Switches autocast off for a device while it lives, then restores it: around backward passes and
/// optimisers. Cached casts of parameters, which the optimiser changes, are dropped.
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

/// `value` in float32 if autocast made it smaller, else `value` itself.
[[nodiscard]] at::Tensor in_float32(const at::Tensor& value);

/// Warns if bfloat16 is slow on the device. Throws: ConfigError if the device lacks it.
void check_precision(c10::Device device, Precision precision);

}  // namespace troupe::detail
