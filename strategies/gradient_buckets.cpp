#include "strategies/gradient_buckets.h"

#include <torch/types.h>

#include "core/error.h"
#include "core/text.h"
#include "strategies/finite_gradients.h"

namespace troupe {
namespace {

/// Lays the gradients end to end into `flat`, zero where there is none, then the flags.
void fill(const at::Tensor& flat, const std::vector<NamedTensor>& parameters) {
  std::vector<float> used;
  std::int64_t offset = 0;
  for (const auto& [name, parameter] : parameters) {
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
  flat.narrow(0, offset, static_cast<std::int64_t>(used.size())).copy_(torch::tensor(used));
}

/// Makes every gradient a view of its values in `flat`; none where no replica had one.
void take(const at::Tensor& flat, const std::vector<NamedTensor>& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const at::Tensor flags = flat.narrow(0, flat.numel() - count, count);
  const at::Tensor used_by = flags.to(torch::kCPU, torch::kFloat64);
  const double* used = used_by.data_ptr<double>();
  std::int64_t offset = 0;
  for (const auto& [name, parameter] : parameters) {
    parameter.mutable_grad() =
        *used++ == 0 ? at::Tensor()
                     : flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
  }
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
                             "; gradients are summed over replicas in float32 and float64."),
                        "keep the parameters in float32.");
    }
  }
  bool finite = true;
  if (float32) finite = reduce_dtype(parameters, torch::kFloat32) && finite;
  if (float64) finite = reduce_dtype(parameters, torch::kFloat64) && finite;
  if (!finite) detail::check_finite_gradients(parameters);
}

GradientBuckets::Bucket& GradientBuckets::bucket_of(const std::vector<NamedTensor>& parameters) {
  const auto& [first_name, first] = parameters.front();
  std::vector<const void*> key;
  auto size = static_cast<std::int64_t>(parameters.size());
  for (const auto& [name, parameter] : parameters) {
    key.push_back(parameter.unsafeGetTensorImpl());
    size += parameter.numel();
  }
  Bucket& bucket = buckets_[key];
  const at::ScalarType dtype = first.scalar_type();
  // A model that is gone may have had its parameters at the same places.
  if (!bucket.flat.defined() || bucket.flat.numel() != size) {
    bucket.flat = torch::empty({size}, first.options().requires_grad(false));
    // Two optimisers may begin with the same parameter, and be of the same size.
    const std::string& last_name = parameters.back().first;
    bucket.summand.gradients = text(first_name, "/", last_name, "/", dtype, "/", size);
    bucket.summand.what =
        text("apply_gradients (", parameters.size(), " parameters from \"", first_name, "\" to \"",
             last_name, "\", ", size - static_cast<std::int64_t>(parameters.size()), " ", dtype,
             " values)");
  }
  return bucket;
}

bool GradientBuckets::reduce_dtype(const std::vector<NamedTensor>& all, at::ScalarType dtype) {
  std::vector<NamedTensor> parameters;
  for (const NamedTensor& parameter : all) {
    if (parameter.second.scalar_type() == dtype) parameters.push_back(parameter);
  }
  const torch::NoGradGuard no_grad;
  const Bucket& bucket = bucket_of(parameters);
  fill(bucket.flat, parameters);
  const bool finite = sum_.add_up(replica_, bucket.flat, bucket.summand);
  take(bucket.flat, parameters);
  return finite;
}

}  // namespace troupe
