// A device without hardware, for what our code asks of LibTorch about GPUs: streams whose work runs
// late, on threads of their own, events, and memory that the host reaches by copies alone. It is
// LibTorch's PrivateUse1, which is there for devices that LibTorch does not know; two of them, with
// two streams each. Its operators are the CPU's, run when what is on the current stream has ended.
// What it cannot show: errors of a device, peer access, and how long anything takes.
//
// To be included by one source of a program.
#pragma once

#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/types.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/late_queue.h"

namespace troupe::testing {

inline constexpr c10::DeviceType kLate = c10::DeviceType::PrivateUse1;

/// Streams 0, where a thread computes unless it chooses another, and 1.
struct LateDevice {
  std::array<LateQueue, 2> streams;
  std::atomic<int> host_waits{
      0};  // copies to the host, numbers that it asked for, synchronisations
  std::mutex mutex;
  std::vector<std::string> journal;  // of events: "0 records", "1 waits"

  void note(const c10::Stream& stream, const char* what) {
    const std::lock_guard<std::mutex> lock(mutex);
    journal.push_back(std::to_string(stream.id()) + what);
  }
};

inline LateDevice& late(const c10::Device& device) {
  static std::array<LateDevice, 2> devices;
  return devices.at(static_cast<std::size_t>(device.index()));
}
inline LateQueue& late(const c10::Stream& stream) {
  return late(stream.device()).streams.at(static_cast<std::size_t>(stream.id()));
}

namespace detail {

/// What an event stands for: the end of all that was on a stream when it was recorded.
using Recorded = std::shared_future<void>;

inline thread_local c10::DeviceIndex t_device = 0;
inline thread_local std::array<c10::StreamId, 2> t_streams{};

struct LateGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kLate; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kLate, std::exchange(t_device, device.index())};
  }
  c10::Device getDevice() const override { return {kLate, t_device}; }
  void setDevice(c10::Device device) const override { t_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { t_device = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    const auto own = static_cast<std::size_t>(device.index());
    return c10::Stream(c10::Stream::UNSAFE, device, t_streams[own]);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    auto& current = t_streams[static_cast<std::size_t>(stream.device_index())];
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), std::exchange(current, stream.id()));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    ++late(stream.device()).host_waits;
    late(stream).finish();
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    late(stream.device()).note(stream, " records");
    const auto reached = std::make_shared<std::promise<void>>();
    if (*event == nullptr) *event = new Recorded;
    *static_cast<Recorded*>(*event) = reached->get_future().share();
    late(stream).add([reached] { reached->set_value(); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    late(stream.device()).note(stream, " waits");
    late(stream).add([until = *static_cast<Recorded*>(event)] { until.wait(); });
  }
  bool queryEvent(void* event) const override {
    return static_cast<Recorded*>(event)->wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Recorded*>(event);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, LateGuard)

inline thread_local bool t_in_operator = false;  // its copies are the stand-in's own

inline at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                                c10::optional<at::ScalarType> type, c10::optional<c10::Layout>,
                                c10::optional<c10::Device> device, c10::optional<bool>) {
  const auto dtype = c10::scalarTypeToTypeMeta(type.value_or(at::kFloat));
  std::size_t values = 1;
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 0) values = 0;
    if (values > 0) values += static_cast<std::size_t>((size[i] - 1) * stride[i]);
  }
  const c10::Device place = device && device->has_index() ? *device : LateGuard().getDevice();
  const std::size_t bytes = values * dtype.itemsize();
  auto* const memory = new char[bytes];
  c10::DataPtr owner(
      memory, memory, [](void* p) { delete[] static_cast<char*>(p); }, place);
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(owner)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return made;
}

inline at::Tensor empty(c10::IntArrayRef size, c10::optional<at::ScalarType> type,
                        c10::optional<c10::Layout> layout, c10::optional<c10::Device> device,
                        c10::optional<bool> pinned, c10::optional<at::MemoryFormat>) {
  std::vector<std::int64_t> stride(size.size(), 1);
  for (std::size_t i = size.size(); i-- > 1;) stride[i - 1] = stride[i] * size[i];
  return empty_strided(size, stride, type, layout, device, pinned);
}

/// The same memory as the CPU's; on the device, when all before it has run.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  late(LateGuard().getStream(tensor.device())).finish();
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

inline at::Tensor copy_from(const at::Tensor& from, const at::Tensor& into, bool /*late*/) {
  if (into.is_cpu() && !t_in_operator) ++late(from.device()).host_waits;
  on_host(into).copy_(on_host(from));
  return into;
}

/// What an operator has made for a tensor that may have had no shape yet.
inline at::Tensor copy_back(const at::Tensor& from, const at::Tensor& into) {
  if (into.sizes() != from.sizes()) {
    const at::Tensor made = at::empty(from.sizes(), into.options());
    into.unsafeGetTensorImpl()->set_storage_keep_dtype(made.storage());
    into.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
  }
  return copy_from(from, into, false);
}

inline void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool asks_for_number = op.schema().name() == "aten::_local_scalar_dense";
  t_in_operator = !asks_for_number;
  at::native::cpu_fallback(op, stack);
  t_in_operator = false;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view",
         static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_back);
}

}  // namespace detail
}  // namespace troupe::testing
