#include "troupe/hooks/gradient_norm.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

// Values that are added up in one go. Fixed, so that the order of additions depends on nothing but
// their number.
constexpr std::int64_t kBlock = 1 << 15;

/// Fixed lanes let the compiler use vectors without a choice of order. The square of a float32 is
/// exact in float64, so that a fused multiply-add changes nothing either.
template <class Value>
double sum_of_squares(const Value* values, std::int64_t count) {
  std::array<double, 8> lanes{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const auto value = static_cast<double>(values[i + static_cast<std::int64_t>(lane)]);
      lanes[lane] += value * value;
    }
  }
  double total = 0;
  for (const double lane : lanes) total += lane;
  for (; i < count; ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return total;
}

template <class Value>
double sum_of_squares(const at::Tensor& contiguous) {
  const auto* values = contiguous.data_ptr<Value>();
  const std::int64_t count = contiguous.numel();
  std::vector<double> blocks(static_cast<std::size_t>((count + kBlock - 1) / kBlock));
  at::parallel_for(0, static_cast<std::int64_t>(blocks.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t block = begin; block < end; ++block) {
                       const std::int64_t first = block * kBlock;
                       blocks[static_cast<std::size_t>(block)] =
                           sum_of_squares(values + first, std::min(kBlock, count - first));
                     }
                   });
  double total = 0;
  for (const double block : blocks) total += block;
  return total;
}

bool is_wide(const at::Tensor& values) {
  return values.scalar_type() == torch::kFloat32 || values.scalar_type() == torch::kFloat64;
}

double sum_of_squares(const at::Tensor& values) {
  if (values.is_cpu() && is_wide(values)) {
    return values.scalar_type() == torch::kFloat32 ? sum_of_squares<float>(values.contiguous())
                                                   : sum_of_squares<double>(values.contiguous());
  }
  // The host waits for the device here.
  return values.to(torch::kFloat64).square().sum().item<double>();
}

/// By parameter, [number of parameters], float64, on the CPU.
at::Tensor sums_of_squares(const std::vector<NamedTensor>& parameters) {
  const torch::NoGradGuard no_grad;
  at::Tensor sums = torch::zeros({static_cast<std::int64_t>(parameters.size())}, torch::kFloat64);
  double* const sum = sums.data_ptr<double>();
  std::vector<at::Tensor> on_device;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = parameters[i].second.grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) gradient = gradient.coalesce().values();
    if (gradient.is_cpu() || !is_wide(gradient)) {
      sum[i] = sum_of_squares(gradient);
    } else {
      on_device.push_back(gradient);
      places.push_back(i);
    }
  }
  const std::vector<double> norms = norms_on_device(on_device);
  for (std::size_t k = 0; k < norms.size(); ++k) {
    // Where a float32 overflows, a float64 need not.
    sum[places[k]] = std::isfinite(norms[k]) ? norms[k] * norms[k] : sum_of_squares(on_device[k]);
  }
  return sums;
}

double norm_by(const at::Tensor& squares) {
  const double* const sums = squares.data_ptr<double>();
  const double norm = std::sqrt(std::accumulate(sums, sums + squares.numel(), 0.0));
  if (std::isfinite(norm)) return norm;
  throw NonFiniteError(text("the global norm of ", squares.numel(), " gradients is ", norm, "."),
                       "lower --learning-rate, or look for a division by zero in the loss.");
}

}  // namespace

std::vector<double> norms_on_device(const std::vector<at::Tensor>& values) {
  if (values.empty()) return {};
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> norms = at::_foreach_norm(values);
  const auto type = norms.front().scalar_type();
  const bool is_mixed = std::any_of(norms.begin(), norms.end(), [type](const at::Tensor& norm) {
    return norm.scalar_type() != type;
  });
  if (is_mixed) {
    for (at::Tensor& norm : norms) norm = norm.to(torch::kFloat64);
  }
  const at::Tensor host = torch::stack(norms).to(torch::kCPU).to(torch::kFloat64);
  const auto* const first = host.data_ptr<double>();
  return {first, first + host.numel()};
}

double gradient_norm(const std::vector<NamedTensor>& parameters) {
  return norm_by(sums_of_squares(parameters));
}

void scale_gradients(const std::vector<NamedTensor>& parameters, double factor) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) {
      gradient = gradient.coalesce();
      gradient.values().mul_(factor);
    } else {
      gradient.mul_(factor);
    }
  }
}

double clip_gradients(const std::vector<NamedTensor>& parameters, double limit,
                      ParameterUpdate& update) {
  const at::Tensor squares = sums_of_squares(parameters);
  if (!update.has_all_gradients()) update.sum(squares, "the norm of the gradients");
  const double norm = norm_by(squares);
  if (norm > limit) scale_gradients(parameters, limit / norm);
  return norm;
}

}  // namespace troupe::detail
