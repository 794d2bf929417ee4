#include "strategies/mirrored.h"

#include "core/error.h"
#include "core/text.h"
#include "strategies/replicas/local_replicas.h"

namespace troupe {
namespace {

class Mirrored final : public Strategy {
 public:
  explicit Mirrored(const StrategyOptions& options)
      : Strategy({"mirrored", 0, 1, options.local_replicas(), options.local_replicas()}),
        replicas_(options) {}

  [[nodiscard]] TrainState create_state(const Hooks& hooks, std::uint64_t seed) override {
    return replicas_.make(hooks, seed);
  }
  [[nodiscard]] std::vector<StepResult> run(const Step& step, TrainState& state,
                                            const DistributedBatch& batch, Phase phase) override {
    return replicas_.run(step, state, batch, phase);
  }

 private:
  detail::LocalReplicas replicas_;
};

}  // namespace

std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options) {
  if (options.cluster.world_size() > 1) {
    throw ConfigError(text("--strategy mirrored was asked for, and ", options.cluster.origin,
                           " describes ", options.cluster.world_size(), " workers."),
                      "use --strategy multi-worker, which takes --replicas and --devices too, or "
                      "unset the cluster.");
  }
  return std::make_unique<Mirrored>(options);
}

}  // namespace troupe
