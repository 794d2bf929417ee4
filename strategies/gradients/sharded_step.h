// ShardedStep: an optimiser's step that each replica takes for its own part of the parameters,
// after which all have all new values. So no replica keeps more of the optimiser's state than its
// part's.
//
// The parts are whole parameters (optimizer_shards.h). To the optimiser a parameter that is another
// replica's looks like one that the step did not use: it has no gradient. So an optimiser that
// steps parameters by themselves, element by element or not, has the bits of the undivided step.
//
// All parameters of one optimiser and dtype move into one flat tensor, by owner, each where a cache
// line begins, as memory from LibTorch does: so an engine can bring each part straight to where the
// others use it. A parameter whose memory something else uses stays where it is and is copied.
//
// Source: Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter
// models", stage 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/gradients/replica_sum.h"

namespace troupe::detail {

/// Of one replica; used by the thread that runs it.
class ShardedStep {
 public:
  using Place = ReplicaSum::Place;

  /// `sum` outlives this object.
  explicit ShardedStep(ReplicaSum& sum) : sum_(sum) {}

  /// The step of the optimiser named `name`, which owns `parameters`; `take` is its step by the
  /// gradients that are there. Gradients stay as they are.
  /// Shapes: the same parameters and shards on every replica.  Collective: yes.
  /// Throws: what `take` throws; as ReplicaSum::all_gather.
  void step(const std::string& name, const std::vector<NamedTensor>& parameters, const Place& place,
            const std::function<void()>& take);

  /// Lets the parameters of former models go.
  void forget() { layouts_.clear(); }

 private:
  /// The parameters of one dtype.
  struct Values {
    at::Tensor flat;
    Parts parts;
    std::vector<std::size_t> parameters;  // which they are
    std::vector<at::Tensor> places;       // of each in flat
    Summand summand;
  };
  struct Layout {
    std::vector<int> owners;  // by parameter
    std::vector<Values> values;
  };

  [[nodiscard]] Layout make_layout(const std::string& name,
                                   const std::vector<NamedTensor>& parameters, const Place& place);
  void share(const Values& values, const Layout& layout, const Place& place,
             const std::vector<NamedTensor>& parameters);

  ReplicaSum& sum_;
  std::map<std::string, Layout> layouts_;  // by optimiser
};

}  // namespace troupe::detail
