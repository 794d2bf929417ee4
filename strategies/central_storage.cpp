#include "strategies/central_storage.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "core/error.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"

namespace troupe {
namespace {

/// The update that replicas of one process take once for all of them.
class UpdateOnce final : public detail::OverlappedSum {
 public:
  /// What all replicas' updates share: the first one's parameters of the step under way. Replica 0
  /// writes it before the meeting, the others read it after; the next step's first meeting, in
  /// reduce(), comes between that and the next writing.
  using Central = const std::vector<NamedTensor>*;

  UpdateOnce(detail::ReplicaSum& sum, const Place& place, const BucketOptions& options,
             std::shared_ptr<Central> central)
      : OverlappedSum(sum, place, options), central_(std::move(central)) {}

  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override {
    if (parameters.empty()) return;  // nothing was reduced: the replicas have not met
    if (is_first()) {
      OverlappedSum::step(name, optimizer, parameters);
      *central_ = &parameters;
    } else {
      optimizer.state().clear();  // a checkpoint is restored into all, and one needs it
    }
    if (is_alone()) return;
    meet(text("the update by optimiser \"", name, "\""));
    if (!is_first()) fetch(**central_, parameters);
  }

 private:
  /// The new values, for what is not the same memory.
  static void fetch(const std::vector<NamedTensor>& central,
                    const std::vector<NamedTensor>& parameters) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& own = parameters[i].second;
      if (!own.is_alias_of(central[i].second)) own.copy_(central[i].second);
    }
  }

  std::shared_ptr<Central> central_;
};

detail::LocalReplicas::MakeUpdate update_once() {
  return [central = std::make_shared<UpdateOnce::Central>(nullptr)](
             detail::ReplicaSum& sum, const detail::OverlappedSum::Place& place,
             const BucketOptions& options) {
    return std::make_unique<UpdateOnce>(sum, place, options, central);
  };
}

/// Replicas on the first one's device get its parameters' memory in place of their own. The tensors
/// stay the same objects, which optimisers and gradients are found by.
void share_parameters(const TrainState& state) {
  const torch::NoGradGuard no_grad;
  const Replica& first = *state.replicas.front();
  const auto central = first.parameters();
  for (const auto& replica : state.replicas) {
    if (replica->place().device != first.place().device) continue;
    const auto own = replica->parameters();
    for (std::size_t i = 0; i < own.size(); ++i) own[i].second.set_data(central[i].second);
  }
}

class CentralStorage final : public Strategy {
 public:
  explicit CentralStorage(const StrategyOptions& options)
      : Strategy({"central-storage", 0, 1, options.local_replicas(), options.local_replicas()}),
        replicas_(options, update_once()) {}

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state = replicas_.make(hooks, seed);
    share_parameters(state);
    return state;
  }
  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    return replicas_.run(step, state, batch, phase);
  }

 private:
  detail::LocalReplicas replicas_;
};

}  // namespace

std::unique_ptr<Strategy> make_central_storage(const StrategyOptions& options) {
  if (options.cluster.world_size() > 1) {
    throw ConfigError(text("--strategy central-storage was asked for, and ", options.cluster.origin,
                           " describes ", options.cluster.world_size(), " workers."),
                      "use --strategy multi-worker, which takes --replicas and --devices too, or "
                      "unset the cluster.");
  }
  return std::make_unique<CentralStorage>(options);
}

}  // namespace troupe
