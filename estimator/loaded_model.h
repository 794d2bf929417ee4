// LoadedModel: a trained model in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/core/options/strategy_options.h"
#include "troupe/hooks/hooks.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// A model in this process with the weights of a checkpoint, to evaluate, predict with or export.
/// Making and loading it leave training's random streams alone.
class LoadedModel {
 public:
  /// Fresh weights, as training with these options and this seed would start from, on its first
  /// device. Its forward passes have training's precision.
  LoadedModel(const Hooks& hooks, const StrategyOptions& training, std::uint64_t seed);

  /// Throws: CheckpointError.
  void load(const std::string& checkpoint);
  [[nodiscard]] Replica& replica() { return *state_.replicas.front(); }
  /// Of the weights' checkpoint; 0 for fresh weights.
  [[nodiscard]] std::int64_t step() const { return state_.step; }
  /// No checkpoint was loaded.
  [[nodiscard]] bool is_fresh() const { return fresh_; }

 private:
  std::unique_ptr<Strategy> strategy_;
  TrainState state_;
  bool fresh_ = true;
};

}  // namespace troupe
