// Predictor: predict_step as the framework calls it, on rows of a few examples, for what exports a
// model: with the checks of what goes in and comes out that every format needs.
//
// Legend: B examples of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "troupe/export/model_signature.h"
#include "troupe/hooks/hooks.h"

namespace troupe::detail {

/// `count` of the examples, beginning with the second: values of their own, on the CPU, so that a
/// model which changes its input in place changes nothing else.
[[nodiscard]] std::vector<NamedTensor> select(const std::vector<NamedTensor>& examples,
                                              std::int64_t count);

class Predictor {
 public:
  /// Both outlive it.
  Predictor(const Hooks& hooks, Replica& replica) : hooks_(hooks), replica_(replica) {}

  /// Throws: ConfigError where what comes out has no names, or is not [B, ...].
  [[nodiscard]] Predictions run(const std::vector<at::Tensor>& fields) const;
  /// On `count` of the examples. Throws: ConfigError likewise, or where predict_step fails.
  [[nodiscard]] Predictions run(const std::vector<NamedTensor>& examples, std::int64_t count) const;
  /// The predictions of all examples. Throws: ConfigError where a second run gives others.
  [[nodiscard]] Predictions run_twice(const std::vector<NamedTensor>& examples) const;

  [[nodiscard]] const Replica& replica() const { return replica_; }

 private:
  const Hooks& hooks_;
  Replica& replica_;
};

/// Equal bit for bit, or to 1e-6 absolute plus relative.
[[nodiscard]] bool agree(const at::Tensor& a, const at::Tensor& b);

/// What `body` returns of predict_step on the CPU, without gradients: of the replica, or of a copy
/// of it where it is elsewhere. Leaves the default generators, the replica's mode and its metrics
/// as they were. Throws: ConfigError unless `examples` are the features of a batch of two or more,
/// or where create_model makes other models than the replica has.
[[nodiscard]] ModelSignature with_predictor(
    const Hooks& hooks, Replica& replica, const std::vector<NamedTensor>& examples,
    const std::function<ModelSignature(const Predictor&)>& body);

/// What every format refuses at the first look: runs predict_step on one of `examples`, where the
/// replica is. Throws: ConfigError.
void check_predictions(const Hooks& hooks, Replica& replica,
                       const std::vector<NamedTensor>& examples);

}  // namespace troupe::detail
