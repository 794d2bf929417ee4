// LossSet: the per-example losses of a task, by name.
// Shapes: B examples in a replica's batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// (predictions [B, ...], targets [B, ...]) -> [B], one loss per example, never a mean: the mean is
/// taken over all replicas' examples by Replica::global_mean.
using LossFunction = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

class LossSet {
 public:
  LossSet() = default;
  /// Throws: ConfigError on an empty or repeated name and on an empty function.
  LossSet(std::initializer_list<std::pair<std::string, LossFunction>> losses);

  LossSet& add(std::string name, LossFunction function);
  /// Throws: ConfigError that lists the names there are.
  [[nodiscard]] const LossFunction& at(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, LossFunction>> losses_;
};

}  // namespace troupe
