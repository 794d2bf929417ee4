// What differs between the versions of LibTorch that Troupe is built with, 1.13 to 2.15, in one
// spelling each. What differs in a back end of c10d is in strategies/engines/c10d_engine.h.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <type_traits>
#include <utility>

/// Whether LibTorch is of this version or newer.
#define TROUPE_TORCH_SINCE(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||      \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace troupe::detail {

template <class T>
std::weak_ptr<T> weak_of(const std::shared_ptr<T>& node) {
  return node;
}
template <class T>
c10::weak_intrusive_ptr<T> weak_of(const c10::intrusive_ptr<T>& node) {
  return c10::weak_intrusive_ptr<T>(node);
}

/// A node of the graph that autograd records: std::shared_ptr, c10::intrusive_ptr from 2.14 on.
using GraphNode = std::decay_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;
/// Does not keep its node. `lock()` gives a GraphNode, empty if the node is gone.
using WeakGraphNode = decltype(weak_of(std::declval<const GraphNode&>()));

#if TROUPE_TORCH_SINCE(2, 4)
inline bool autocast_is_on(c10::DeviceType device) {
  return at::autocast::is_autocast_enabled(device);
}
inline void turn_autocast(c10::DeviceType device, bool on) {
  at::autocast::set_autocast_enabled(device, on);
}
inline at::ScalarType autocast_dtype(c10::DeviceType device) {
  return at::autocast::get_autocast_dtype(device);
}
inline void set_autocast_dtype(c10::DeviceType device, at::ScalarType dtype) {
  at::autocast::set_autocast_dtype(device, dtype);
}
#else  // a set of functions for each kind of device
inline bool autocast_is_on(c10::DeviceType device) {
  return device == c10::kCPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
inline void turn_autocast(c10::DeviceType device, bool on) {
  device == c10::kCPU ? at::autocast::set_cpu_enabled(on) : at::autocast::set_enabled(on);
}
inline at::ScalarType autocast_dtype(c10::DeviceType device) {
  return device == c10::kCPU ? at::autocast::get_autocast_cpu_dtype()
                             : at::autocast::get_autocast_gpu_dtype();
}
inline void set_autocast_dtype(c10::DeviceType device, at::ScalarType dtype) {
  device == c10::kCPU ? at::autocast::set_autocast_cpu_dtype(dtype)
                      : at::autocast::set_autocast_gpu_dtype(dtype);
}
#endif

}  // namespace troupe::detail
