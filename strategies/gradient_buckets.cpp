#include "strategies/gradient_buckets.h"

#include <torch/types.h>

#include "core/check.h"
#include "strategies/finite_gradients.h"

namespace troupe {
namespace {

/// Sums a contiguous flat tensor over the group, by way of host memory when it is on a device.
void all_reduce(WorkerGroup& group, at::Tensor& flat) {
  at::Tensor host = flat.to(torch::kCPU);  // the same tensor when it is there already
  const auto deadline = Deadline::in(group.options().collective_timeout);
  const auto count = static_cast<std::size_t>(host.numel());
  if (host.scalar_type() == torch::kFloat32) {
    group.all_reduce(Span<float>(host.data_ptr<float>(), count), deadline);
  } else {
    group.all_reduce(Span<double>(host.data_ptr<double>(), count), deadline);
  }
  if (!host.is_same(flat)) flat.copy_(host);
}

}  // namespace

void GradientBuckets::reduce(const std::vector<NamedTensor>& parameters) {
  bool float32 = false;
  bool float64 = false;
  for (const auto& [name, parameter] : parameters) {
    const auto dtype = parameter.scalar_type();
    float32 = float32 || dtype == torch::kFloat32;
    float64 = float64 || dtype == torch::kFloat64;
    if (dtype != torch::kFloat32 && dtype != torch::kFloat64) {
      throw ConfigError(text("parameter \"", name, "\" is ", dtype,
                             "; gradients are summed over workers in float32 and float64."),
                        "keep the parameters in float32.");
    }
  }
  if (float32) reduce_dtype(parameters, torch::kFloat32);
  if (float64) reduce_dtype(parameters, torch::kFloat64);
  detail::check_finite_gradients(parameters);
}

void GradientBuckets::reduce_dtype(const std::vector<NamedTensor>& all, at::ScalarType dtype) {
  std::vector<at::Tensor> parameters;
  std::int64_t size = 0;
  for (const auto& [name, parameter] : all) {
    if (parameter.scalar_type() != dtype) continue;
    parameters.push_back(parameter);
    size += parameter.numel();
  }
  const auto count = static_cast<std::int64_t>(parameters.size());
  at::Tensor& flat = buckets_[{parameters.front().unsafeGetTensorImpl(), dtype}];
  if (!flat.defined())
    flat = torch::empty({size + count}, parameters.front().options().requires_grad(false));
  TROUPE_CHECK_EQ(flat.numel(), size + count);

  const torch::NoGradGuard no_grad;
  std::vector<float> used;
  std::int64_t offset = 0;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    at::Tensor slot = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    used.push_back(gradient.defined() ? 1.0F : 0.0F);
    if (gradient.defined()) {
      slot.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    } else {
      slot.zero_();
    }
    offset += parameter.numel();
  }
  at::Tensor flags = flat.narrow(0, size, count);
  flags.copy_(torch::tensor(used));

  all_reduce(group_, flat);

  const at::Tensor used_by = flags.to(torch::kCPU, torch::kFloat64);
  offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor& parameter = parameters[static_cast<std::size_t>(i)];
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = used_by.data_ptr<double>()[i] == 0
                   ? at::Tensor()
                   : flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
  }
}

}  // namespace troupe
