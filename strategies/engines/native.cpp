// The native engine: WorkerGroup's own all-reduce, by way of host memory for tensors on a device.
#include <torch/types.h>

#include <map>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/strategies/engines/engine.h"

namespace troupe::detail {
namespace {

template <class Value>
Span<Value> values_of(const at::Tensor& host) {
  return {host.data_ptr<Value>(), static_cast<std::size_t>(host.numel())};
}

/// In units of `value` of them.
std::vector<std::size_t> ends_of(const Parts& parts, std::size_t value) {
  std::vector<std::size_t> ends;
  for (const std::int64_t end : parts.ends) ends.push_back(static_cast<std::size_t>(end) * value);
  return ends;
}

class NativeEngine final : public Engine {
 public:
  NativeEngine(WorkerGroup& group, std::optional<WireType> wire) : group_(group), wire_(wire) {}

  void all_reduce(const at::Tensor& flat, const Summand& summand) override {
    // The same tensor when it is on the host already; else the host waits for the device here.
    const at::Tensor host = flat.to(torch::kCPU);
    const auto deadline = Deadline::in(group_.options().collective_timeout);
    if (host.scalar_type() == torch::kFloat64) {
      group_.all_reduce(values_of<double>(host), deadline);
    } else if (wire_ && !summand.gradients.empty() && group_.world_size() > 1) {
      group_.all_reduce(values_of<float>(host), values_of<float>(errors_of(summand, host)), *wire_,
                        deadline);
    } else {
      group_.all_reduce(values_of<float>(host), deadline);
    }
    if (!host.is_same(flat)) flat.copy_(host);
  }

  void reduce_scatter(const at::Tensor& flat, const Parts& parts, const Summand& summand) override {
    if (!can_scatter()) return all_reduce(flat, summand);
    const at::Tensor host = flat.to(torch::kCPU);
    const auto deadline = Deadline::in(group_.options().collective_timeout);
    const std::vector<std::size_t> ends = ends_of(parts, 1);
    if (host.scalar_type() == torch::kFloat64) {
      group_.reduce_scatter(values_of<double>(host), Span<const std::size_t>(ends), deadline);
    } else {
      group_.reduce_scatter(values_of<float>(host), Span<const std::size_t>(ends), deadline);
    }
    if (!host.is_same(flat)) flat.copy_(host);
  }
  [[nodiscard]] bool can_scatter() const override { return !wire_; }

  void all_gather(const at::Tensor& flat, const Parts& parts, const Summand& /*summand*/) override {
    const at::Tensor host = flat.to(torch::kCPU);
    const std::vector<std::size_t> ends = ends_of(parts, host.itemsize());
    group_.all_gather(host_bytes(host), Span<const std::size_t>(ends),
                      Deadline::in(group_.options().collective_timeout));
    if (!host.is_same(flat)) flat.copy_(host);
  }

  [[nodiscard]] bool is_exact() const override { return !wire_; }
  [[nodiscard]] bool can_overlap() const override { return !wire_; }

  [[nodiscard]] at::Tensor make_buffer(std::int64_t count,
                                       const at::TensorOptions& options) override {
    if (!options.device().is_cpu()) return Engine::make_buffer(count, options);
    const auto bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
    const auto memory =
        group_.make_buffer(bytes, Deadline::in(group_.options().collective_timeout));
    return torch::from_blob(
        memory.get(), {count}, [memory](void*) {}, options);
  }

  [[nodiscard]] std::vector<NamedTensor> own_state() const override {
    return {errors_.begin(), errors_.end()};
  }

  void restore_own_state(const std::vector<NamedTensor>& tensors) override {
    errors_.clear();
    if (!wire_) return;  // a checkpoint of a run that compressed, continued without
    for (const auto& [name, errors] : tensors) {
      if (errors.scalar_type() != torch::kFloat32 || errors.dim() != 1) {
        throw CheckpointError(text("the rounding errors of \"", name, "\" are not float32 [n]."),
                              "resume from another checkpoint.");
      }
      errors_[name] = errors.to(torch::kCPU).clone();
    }
  }

 private:
  /// What rounding has taken from these gradients so far, [n].
  at::Tensor& errors_of(const Summand& summand, const at::Tensor& values) {
    const auto [found, made] = errors_.try_emplace(summand.gradients);
    if (made) found->second = torch::zeros(values.sizes(), torch::kFloat32);
    if (found->second.numel() != values.numel()) {
      throw CheckpointError(
          text("the rounding errors of \"", summand.gradients, "\" are ", found->second.numel(),
               " values, the gradients ", values.numel(), "."),
          "resume with the hooks that made the checkpoint.");
    }
    return found->second;
  }

  WorkerGroup& group_;
  std::optional<WireType> wire_;
  std::map<std::string, at::Tensor> errors_;  // by Summand::gradients
};

}  // namespace

std::unique_ptr<Engine> make_native_engine(WorkerGroup& group, std::optional<WireType> wire) {
  return std::make_unique<NativeEngine>(group, wire);
}

}  // namespace troupe::detail
