#include "estimator/loaded_model.h"

#include "strategies/device.h"
#include "strategies/one_process.h"
#include "train/checkpoint/model_weights.h"
#include "train/random_guard.h"

namespace troupe {

LoadedModel::LoadedModel(const Hooks& hooks, const StrategyOptions& training, std::uint64_t seed) {
  StrategyOptions alone;
  alone.device = detail::first_device(training);
  alone.step.precision = training.step.precision;
  strategy_ = make_one_device(alone);  // not make_strategy: the compute threads are set
  const detail::RandomGuard guard(detail::parse_device(alone.device));
  state_ = strategy_->create_state(hooks, seed);
}

void LoadedModel::load(const std::string& checkpoint) {
  fresh_ = false;  // whatever becomes of it
  load_weights(replica(), checkpoint);
  state_.step = split_checkpoint_path(checkpoint).step;
}

}  // namespace troupe
