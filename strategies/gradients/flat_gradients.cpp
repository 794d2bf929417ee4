#include "troupe/strategies/gradients/flat_gradients.h"

#include <torch/types.h>

#include <cmath>
#include <limits>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/trace.h"
#include "troupe/hooks/gradient_norm.h"

namespace troupe::detail {
namespace {

/// Half of what the largest number allows: partial sums are rounded.
double limit_of(at::ScalarType dtype, int replicas) {
  const double largest = dtype == torch::kFloat64
                             ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
  return replicas == 1 ? largest : largest / 2 / replicas;
}

template <class Value>
bool copy_plain(const at::Tensor& from, const at::Tensor& into, double limit) {
  return copy_within(from.data_ptr<Value>(), into.data_ptr<Value>(),
                     static_cast<std::size_t>(from.numel()), static_cast<Value>(limit));
}

/// Returns whether no value is beyond the limit; false also where that is not looked at.
bool copy_into(const at::Tensor& place, const at::Tensor& gradient, double limit) {
  if (!place.is_cpu()) {
    place.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    return false;
  }
  const at::Tensor dense = (gradient.is_sparse() ? gradient.to_dense() : gradient).contiguous();
  return place.scalar_type() == torch::kFloat64 ? copy_plain<double>(dense, place, limit)
                                                : copy_plain<float>(dense, place, limit);
}

}  // namespace

FlatGradients::FlatGradients(std::vector<NamedTensor> parameters, int replicas, Check check,
                             Owners owners)
    : parameters_(std::move(parameters)),
      check_(parameters_.front().second.is_cpu() ? check : Check::sums),
      owners_(std::move(owners)),
      limit_(limit_of(parameters_.front().second.scalar_type(), replicas)),
      plan_(plan_of_one(sizes())),
      taken_(parameters_.size()) {
  TROUPE_CHECK(!is_divided() || check_ == Check::flags);
}

std::vector<std::int64_t> FlatGradients::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, parameter] : parameters_) sizes.push_back(parameter.numel());
  return sizes;
}

std::int64_t FlatGradients::values() const { return plan_.buckets.back().end; }

std::int64_t FlatGradients::size() const {
  return values() + static_cast<std::int64_t>(parameters_.size()) +
         (check_ == Check::flags ? 1 : 0) + (is_divided() ? 1 : 0);
}

at::Tensor FlatGradients::flags() const { return flat_.narrow(0, values(), size() - values()); }

void FlatGradients::use(const at::Tensor& flat) {
  TROUPE_CHECK_EQ(flat.numel(), size());
  flat_ = flat;
  use(std::move(plan_));
}

void FlatGradients::use(GradientPlan plan) {
  plan_ =
      is_divided() ? divided(std::move(plan), sizes(), owners_.of, owners_.count) : std::move(plan);
  // Below what tracks views: optimisers detach and zero gradients in place.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  places_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    places_.push_back(flat_.narrow(0, plan_.offsets[i], parameter.numel()).view(parameter.sizes()));
  }
  buckets_.clear();
  for (const auto& bucket : plan_.buckets) {
    const std::int64_t end = bucket.end == values() && !is_divided() ? size() : bucket.end;
    buckets_.push_back(flat_.narrow(0, bucket.begin, end - bucket.begin));
  }
}

void FlatGradients::start() {
  taken_.assign(taken_.size(), 0);
  suspect_ = false;
}

FlatGradients::Taken FlatGradients::take(std::size_t parameter) {
  if (!parameters_[parameter].second.grad().defined()) return Taken::nothing;
  if (taken_[parameter] != 0) {
    suspect_ = true;
    return Taken::again;
  }
  copy(parameter);
  return Taken::first;
}

void FlatGradients::copy(std::size_t parameter) {
  const Traced traced("copy gradient", places_[parameter].nbytes());
  const torch::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[parameter].second.mutable_grad();
  if (gradient.is_sparse()) sparse_ = &parameters_[parameter].first;
  if (!copy_into(places_[parameter], gradient, limit_)) suspect_ = true;
  gradient = places_[parameter];
  taken_[parameter] = 1;
}

void FlatGradients::fill(bool wants_all) {
  const torch::NoGradGuard no_grad;
  std::vector<double> flags;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool used = parameters_[i].second.grad().defined();
    if (!used) places_[i].zero_();
    if (used && taken_[i] == 0) copy(i);
    flags.push_back(used ? 1 : 0);
  }
  if (check_ == Check::flags) flags.push_back(std::exchange(suspect_, false) ? 1 : 0);
  if (is_divided()) flags.push_back(wants_all ? 1 : 0);
  const auto count = static_cast<std::int64_t>(flags.size());
  this->flags().copy_(torch::from_blob(flags.data(), {count}, torch::kFloat64));
}

FlatGradients::Outcome FlatGradients::give_back(Sums sums) {
  const torch::NoGradGuard no_grad;
  at::Tensor tail = this->flags();
  // Read together: for each read the host waits for the device.
  if (check_ == Check::sums) tail = at::cat({tail, flat_.narrow(0, 0, values()).sum().view(1)});
  const at::Tensor flags = tail.to(torch::kCPU, torch::kFloat64);
  const double* flag = flags.data_ptr<double>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool is_there = sums == Sums::all || owners_.of[i] == owners_.own;
    parameters_[i].second.mutable_grad() = *flag++ != 0 && is_there ? places_[i] : at::Tensor();
  }
  taken_.assign(taken_.size(), 0);
  return {check_ == Check::flags ? flag[0] == 0 : std::isfinite(flag[0]),
          is_divided() && flag[1] != 0};
}

namespace {

template <class Value>
bool are_finite(const at::Tensor& plain) {
  return are_within(plain.data_ptr<Value>(), static_cast<std::size_t>(plain.numel()),
                    std::numeric_limits<Value>::max());
}

bool is_finite_on_host(const at::Tensor& values) {
  if (values.is_contiguous()) {
    if (values.scalar_type() == torch::kFloat32) return are_finite<float>(values);
    if (values.scalar_type() == torch::kFloat64) return are_finite<double>(values);
  }
  return values.isfinite().all().item<bool>();
}

}  // namespace

void check_finite_gradients(const std::vector<NamedTensor>& parameters,
                            const std::function<void(const at::Tensor&)>& sum) {
  const at::Tensor found =
      torch::zeros({static_cast<std::int64_t>(parameters.size())}, torch::kFloat64);
  double* const not_finite = found.data_ptr<double>();
  std::vector<at::Tensor> on_device;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = parameters[i].second.grad();
    if (!gradient.defined()) continue;
    // Of a sparse gradient what is there: the rest is 0, and it has no sum of its own on the CPU.
    if (gradient.is_sparse()) gradient = gradient._values();
    if (gradient.is_cpu()) {
      not_finite[i] = is_finite_on_host(gradient) ? 0 : 1;
    } else {
      on_device.push_back(gradient);
      places.push_back(i);
    }
  }
  const std::vector<double> norms = norms_on_device(on_device);
  for (std::size_t k = 0; k < norms.size(); ++k) {
    // Finite values may have a norm that is not.
    const bool finite = std::isfinite(norms[k]) || on_device[k].isfinite().all().item<bool>();
    not_finite[places[k]] = finite ? 0 : 1;
  }
  if (sum) sum(found);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (not_finite[i] == 0) continue;
    const std::string& name = parameters[i].first;
    throw NonFiniteError("the gradient of parameter \"" + name + "\" is not finite.",
                         "lower --learning-rate, or look for a division by zero or a logarithm of "
                         "zero in the loss.");
  }
}

}  // namespace troupe::detail
