// For one channel let x_i be its N values over all replicas, dy_i the loss's derivative by y_i:
//
//   mu = 1/N sum x_i    var = 1/N sum (x_i - mu)^2    s = 1/sqrt(var + eps)
//   h_i = (x_i - mu) s  y_i = w h_i + b
//
// y_i depends on x_j directly, by mu and by s. With d(mu)/dx_j = 1/N and
// ds/dx_j = -s^3/2 * 2/N (x_j - mu) = -s^2/N h_j:
//
//   dh_i/dx_j = s (delta_ij - 1/N) + (x_i - mu) ds/dx_j = s (delta_ij - 1/N - 1/N h_i h_j)
//   dx_j = sum_i dy_i w dh_i/dx_j = w s (dy_j - 1/N sum_i dy_i - h_j 1/N sum_i dy_i h_i)
//
// The sums run over the values of all replicas, so those two are exchanged. dw = sum dy_i h_i and
// db = sum dy_i stay this replica's own: apply_gradients adds them up as it does all gradients.
#include "troupe/hooks/sync_batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/hooks/replica_driver.h"

namespace troupe {
namespace {

/// All dimensions but the channels'.
std::vector<std::int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t i = 2; i < x.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

/// [C] -> [1, C, 1, ...], to meet x.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[1] = -1;
  return values.view(shape);
}

/// The replica whose step this is; null where the layer is on its own.
Replica* partner() {
  Replica* replica = detail::running_replica();
  return replica != nullptr && replica->progress().phase == Phase::train ? replica : nullptr;
}

void sum_over_replicas(Replica* replica, const at::Tensor& flat, const char* what,
                       std::int64_t channels) {
  if (replica == nullptr) return;
  detail::ReplicaDriver driver(*replica);
  // Backward runs in the same step, or part of one, as the forward pass.
  if (driver.context().padding) flat.zero_();
  driver.sum_over_replicas(flat, text(what, " (", channels, " channels)"));
}

struct Statistics {
  at::Tensor mean;      // [C] float64
  at::Tensor variance;  // [C] float64, divided by count
  double count = 0;     // N
};

/// Of all replicas' values. Each brings mean and variance of its own, which lose nothing in
/// float32; the sums that these make, whose difference does lose, are in float64.
Statistics statistics_of(const at::Tensor& x, Replica* replica) {
  const std::int64_t channels = x.size(1);
  const auto count = static_cast<double>(x.numel() / channels);
  const auto [variance, mean] = torch::var_mean(x, all_but_channels(x), /*unbiased=*/false);
  const at::Tensor mean64 = mean.to(torch::kFloat64);
  at::Tensor flat =
      torch::cat({mean64 * count, (variance.to(torch::kFloat64) + mean64.square()) * count,
                  torch::full({1}, count, mean64.options())});
  sum_over_replicas(replica, flat, "SyncBatchNorm forward", channels);
  Statistics all;
  all.count = flat[2 * channels].item<double>();  // the host waits for the device here
  if (all.count == 0) {  // padding everywhere: this counts nothing, and must only be finite
    return {mean64, variance.to(torch::kFloat64), 0};
  }
  if (all.count < 2) {
    throw ConfigError("SyncBatchNorm was given one value per channel over all replicas.",
                      "train on batches of at least two examples in every part of a step.");
  }
  all.mean = flat.narrow(0, 0, channels) / all.count;
  all.variance =
      (flat.narrow(0, channels, channels) / all.count - all.mean.square()).clamp_min(0.0);
  return all;
}

/// y from x and the statistics. The replica is kept for backward, which may run on another thread.
class Normalise final : public torch::autograd::Function<Normalise> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& scale, double count,
                            Replica* replica) {
    context->save_for_backward({x, weight, mean, scale});
    context->saved_data["count"] = count;
    context->saved_data["replica"] = reinterpret_cast<std::int64_t>(replica);
    const at::Tensor y = hat(x, mean, scale) * per_channel(weight, x) + per_channel(bias, x);
    return y.to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw ConfigError("SyncBatchNorm has no second derivative.",
                        "use torch::nn::BatchNorm where a loss has gradients in it.");
    }
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor h = hat(x, saved[2], saved[3]);
    const at::Tensor dy = gradients[0].to(h.scalar_type());
    const auto others = all_but_channels(x);
    const at::Tensor db = dy.sum(others);        // [C]
    const at::Tensor dw = (dy * h).sum(others);  // [C]

    const std::int64_t channels = x.size(1);
    auto* replica = reinterpret_cast<Replica*>(context->saved_data["replica"].toInt());
    at::Tensor flat = torch::cat({db, dw}).to(torch::kFloat64);
    sum_over_replicas(replica, flat, "SyncBatchNorm backward", channels);
    flat = (flat / context->saved_data["count"].toDouble()).to(h.scalar_type());
    const at::Tensor dx = (dy - per_channel(flat.narrow(0, 0, channels), x) -
                           h * per_channel(flat.narrow(0, channels, channels), x)) *
                          per_channel(weight * saved[3], x);
    return {dx.to(x.scalar_type()), dw, db, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  /// Normalised x, in the statistics' type: float32 where x is bfloat16.
  static at::Tensor hat(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& scale) {
    return (x.to(mean.scalar_type()) - per_channel(mean, x)) * per_channel(scale, x);
  }
};

}  // namespace

void SyncBatchNormImpl::_check_input_dim(const at::Tensor& x) {
  if (x.dim() >= 2 && x.size(1) == options.num_features() && x.numel() > 0) return;
  throw ConfigError(text("SyncBatchNorm(", options.num_features(), ") was given an input of shape ",
                         x.sizes(), "."),
                    text("give it [B, ", options.num_features(), ", ...]."));
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& x) {
  _check_input_dim(x);
  if (!is_training()) {
    return torch::batch_norm(x, weight, bias, running_mean, running_var,
                             /*training=*/!options.track_running_stats(), /*momentum=*/0.0,
                             options.eps(), at::globalContext().userEnabledCuDNN());
  }
  Replica* const replica = partner();
  const at::Tensor wide = detail::in_float32(x.detach());
  Statistics all;
  at::Tensor scale;  // [C]
  {
    const torch::NoGradGuard no_grad;
    all = statistics_of(wide, replica);
    scale = (all.variance + options.eps()).rsqrt().to(wide.scalar_type());
    if (options.track_running_stats() && all.count > 0) {
      num_batches_tracked += 1;
      const auto momentum = options.momentum();
      const double factor = momentum ? *momentum : 1.0 / num_batches_tracked.item<double>();
      const double unbiased = all.count / (all.count - 1);
      running_mean.mul_(1 - factor).add_(all.mean.to(running_mean.scalar_type()), factor);
      running_var.mul_(1 - factor)
          .add_((all.variance * unbiased).to(running_var.scalar_type()), factor);
    }
  }
  // A custom function takes no undefined tensors.
  return Normalise::apply(x, weight.defined() ? weight : torch::ones_like(scale),
                          bias.defined() ? bias : torch::zeros_like(scale),
                          all.mean.to(wide.scalar_type()), scale, std::max(all.count, 1.0),
                          replica);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "troupe::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", momentum=" << (options.momentum() ? text(*options.momentum()) : "none")
         << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

}  // namespace troupe
