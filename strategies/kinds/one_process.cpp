#include "troupe/strategies/kinds/one_process.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <utility>

#include "troupe/core/text.h"
#include "troupe/strategies/gradients/flat_gradients.h"
#include "troupe/strategies/replicas/local_replicas.h"

namespace troupe {
namespace {

/// The update of a replica that is alone: its gradients are the step's already, whatever their
/// types, and stay where backward has made them.
class OwnUpdate final : public detail::OverlappedSum {
 public:
  using OverlappedSum::OverlappedSum;

  void begin_backward(const std::vector<NamedTensor>& /*parameters*/,
                      const Backward& /*backward*/) override {}
  void reduce(const std::vector<NamedTensor>& parameters) override {
    detail::check_finite_gradients(parameters);
  }
};

/// The update that replicas of one process take once for all of them.
class UpdateOnce final : public detail::OverlappedSum {
 public:
  using OverlappedSum::OverlappedSum;

  void step(const std::string& name, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& parameters) override {
    if (place().replica == 0) {
      OverlappedSum::step(name, optimizer, parameters);
    } else {
      optimizer.state().clear();  // a checkpoint is restored into all, and one needs it
    }
    copy_first(parameters, text("the update by optimiser \"", name, "\""));
  }
};

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

/// Whether each replica has parameters of its own, or those on a device share the first one's.
enum class Variables { own, shared };

class OneProcess final : public Strategy {
 public:
  OneProcess(const char* name, const StrategyOptions& options, Variables variables,
             const detail::LocalReplicas::MakeUpdate& make_update)
      : Strategy(name, view_of(options.cluster, options)),
        variables_(variables),
        replicas_(view(), options, make_update) {}

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state = replicas_.make(hooks, seed);
    if (variables_ == Variables::shared) share_parameters(state);
    return state;
  }
  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    if (variables_ == Variables::own || phase != Phase::train)
      return replicas_.run(step, state, batch, phase);
    // Weights that all share are followed once.
    const auto after_step = std::exchange(state.after_step, nullptr);
    auto results = replicas_.run(step, state, batch, phase);
    state.after_step = after_step;
    follow(state);
    return results;
  }

 private:
  /// The hooks' after_step on the first replica; the others get the buffers that it changes.
  static void follow(const TrainState& state) {
    const std::vector<NamedTensor> buffers = state.replicas.front()->buffers();
    std::vector<std::uint32_t> versions;
    for (const auto& [name, buffer] : buffers)
      versions.push_back(static_cast<std::uint32_t>(buffer._version()));
    state.after_step(*state.replicas.front());
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (static_cast<std::uint32_t>(buffers[i].second._version()) == versions[i]) continue;
      for (const auto& replica : state.replicas) {
        at::Tensor own = replica->buffers()[i].second;
        if (!own.is_same(buffers[i].second)) own.copy_(buffers[i].second);
      }
    }
  }

  const Variables variables_;
  detail::LocalReplicas replicas_;
};

}  // namespace

std::unique_ptr<Strategy> make_one_device(const StrategyOptions& options) {
  return std::make_unique<OneProcess>(
      "one-device", options, Variables::own,
      [](auto&... of_replica) { return std::make_unique<OwnUpdate>(of_replica...); });
}

std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options) {
  return std::make_unique<OneProcess>("mirrored", options, Variables::own, nullptr);
}

std::unique_ptr<Strategy> make_central_storage(const StrategyOptions& options) {
  return std::make_unique<OneProcess>(
      "central-storage", options, Variables::shared,
      [](auto&... of_replica) { return std::make_unique<UpdateOnce>(of_replica...); });
}

}  // namespace troupe
