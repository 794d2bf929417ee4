// UnusedParameters: says once, after an epoch or a hundred steps, which parameters have never got a
// gradient on this replica.
// Thread rule: the replica's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/phase.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe::detail {

class UnusedParameters {
 public:
  /// `owned` outlives this object. `warns`: false on replicas whose warnings another one gives.
  UnusedParameters(const OwnedTensors& owned, bool warns) : owned_(owned), has_told_(!warns) {}

  /// Before each training step.
  void begin(const StepContext& context);
  /// After a backward pass for the parameters of `optimizer`.
  void after_backward(const std::string& optimizer);

 private:
  void warn(std::int64_t steps) const;

  const OwnedTensors& owned_;
  bool has_told_;
  std::optional<std::pair<std::int64_t, std::int64_t>> first_;  // step and epoch
  std::map<std::string, std::vector<char>> used_;  // by optimiser: had a gradient, or was frozen
};

}  // namespace troupe::detail
