#include "troupe/hooks/tensors/autocast.h"

#include <torch/types.h>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/tensors/torch_versions.h"

namespace troupe::detail {
namespace {

/// Whether the CPU computes on bfloat16 rather than LibTorch in many steps; true where unknown.
bool cpu_is_fast() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

}  // namespace

Autocast::Autocast(c10::Device device, Precision precision)
    : device_(device.type()), on_(precision == Precision::bfloat16) {
  if (!on_) return;
  was_on_ = autocast_is_on(device_);
  former_ = autocast_dtype(device_);
  kept_casts_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_cache_enabled(false);
  set_autocast_dtype(device_, at::kBFloat16);
  turn_autocast(device_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_cache_enabled(kept_casts_);
  turn_autocast(device_, was_on_);
  set_autocast_dtype(device_, former_);
}

AutocastPause::AutocastPause(c10::Device device)
    : device_(device.type()), was_on_(autocast_is_on(device_)) {
  if (was_on_) turn_autocast(device_, false);
}

AutocastPause::~AutocastPause() {
  if (!was_on_) return;
  at::autocast::clear_cache();
  turn_autocast(device_, true);
}

at::Tensor in_float32(const at::Tensor& value) {
  const bool small = value.scalar_type() == at::kBFloat16 || value.scalar_type() == at::kHalf;
  return small ? value.to(at::kFloat) : value;
}

void check_precision(c10::Device device, Precision precision) {
  if (precision != Precision::bfloat16) return;
  if (device.is_cpu()) {
    if (cpu_is_fast()) return;
    log_warning(
        "--precision bfloat16: this CPU has no instructions for it (avx512_bf16), so that "
        "steps may be slower than in float32; memory for activations is saved.");
    return;
  }
  try {  // the cheapest question that every version of LibTorch answers
    const at::Tensor one = torch::ones({1, 1}, torch::dtype(torch::kBFloat16).device(device));
    (void)torch::mm(one, one).item<float>();
  } catch (const c10::Error& error) {
    throw ConfigError(text("--precision bfloat16: device ", device.str(), " has no bfloat16."),
                      "use --precision float32, or another device.");
  }
}

}  // namespace troupe::detail
