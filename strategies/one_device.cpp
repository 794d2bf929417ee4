#include "strategies/one_device.h"

#include <c10/core/DeviceGuard.h>
#include <torch/optim/optimizer.h>

#include "core/error.h"
#include "strategies/device.h"
#include "strategies/gradients/finite_gradients.h"
#include "strategies/gradients/optimizer_step.h"
#include "strategies/replicas/replica_runner.h"

namespace troupe {
namespace {

/// One replica: its gradients are the step's already.
class OwnGradients final : public ParameterUpdate {
 public:
  explicit OwnGradients(const BucketOptions& buckets) : buckets_(buckets) {}

  void reduce(const std::vector<NamedTensor>& parameters) override {
    detail::check_finite_gradients(parameters);
  }
  void step(const std::string& /*name*/, torch::optim::Optimizer& optimizer,
            const std::vector<NamedTensor>& /*parameters*/) override {
    if (buckets_.fused_step) {
      detail::step_by_blocks(optimizer);
    } else {
      optimizer.step();
    }
  }

 private:
  const BucketOptions buckets_;
};

class OneDevice final : public Strategy {
 public:
  explicit OneDevice(const StrategyOptions& options)
      : Strategy({"one-device"}),
        device_(detail::replica_devices(options).front()),
        step_(options.step),
        gradients_(options.buckets) {}

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    TrainState state;
    state.replicas.push_back(detail::make_replica(hooks, {0, 1, device_}, seed, gradients_, step_));
    return state;
  }

  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    c10::OptionalDeviceGuard device;  // kCUDA without a number means this GPU in the hooks
    if (!device_.is_cpu()) device.reset_device(device_);
    return {detail::run_on_replica(step, *state.replicas.front(), batch.replicas.front(), phase)};
  }

 private:
  c10::Device device_;
  StepOptions step_;
  OwnGradients gradients_;
};

}  // namespace

std::unique_ptr<Strategy> make_one_device(const StrategyOptions& options) {
  if (options.cluster.world_size() > 1) {
    throw ConfigError("--strategy one-device was asked for, and " + options.cluster.origin +
                          " describes " + std::to_string(options.cluster.world_size()) +
                          " workers.",
                      "use --strategy multi-worker, or unset the cluster.");
  }
  if (options.local_replicas() > 1) {
    throw ConfigError("--strategy one-device was asked for, and " +
                          std::to_string(options.local_replicas()) + " replicas.",
                      "use --strategy mirrored, or leave --replicas and --devices out.");
  }
  return std::make_unique<OneDevice>(options);
}

}  // namespace troupe
