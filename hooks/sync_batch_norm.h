// SyncBatchNorm: batch normalisation over the global batch, in place of torch::nn::BatchNorm1d, 2d
// or 3d. The same options, parameters and buffers, so that checkpoints of either fit the other.
//
// Legend: B examples of this replica (its part of them under --accumulate), C channels.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <ostream>

namespace troupe {

class SyncBatchNormImpl final
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  using torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions>::NormImplBase;

  /// In training, inside a step: mean and variance are those of all replicas' examples, and running
  /// statistics are the same on every replica. Otherwise, and outside any replica: plain batch
  /// norm. Gradients are exact, also through mean and variance; there is no second derivative.
  /// Shapes: x [B, C, ...] -> the same; C and the number of dimensions the same on every replica.
  /// Collective: in train_step, once here and once in backward, on every replica in the same order.
  /// Throws: ConfigError (shape, one value a channel, synchronous servers); DesyncError; NetError.
  /// Cost: 2C+1 float64 values forward, 2C backward, summed over the replicas.
  /// Source: Ioffe & Szegedy 2015, "Batch normalization: accelerating deep network training by
  /// reducing internal covariate shift".
  at::Tensor forward(const at::Tensor& x);

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& x) override;
};

/// `net->push_back(troupe::SyncBatchNorm(64))`, like torch::nn::BatchNorm2d(64).
TORCH_MODULE(SyncBatchNorm);

}  // namespace troupe
