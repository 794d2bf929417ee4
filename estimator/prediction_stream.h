// A trained model in this process, and its predictions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/data/loader.h"
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

/// Predictions, computed batch by batch as they are asked for.
class PredictionStream {
 public:
  enum class Per { example, batch };
  struct Options {
    std::vector<std::string> keys;  // outputs to return; empty: all
    Per per = Per::example;
    std::size_t features = 0;  // how many leading fields predict_step sees; 0: all
  };

  /// `hooks` is shared with the stream; `data` is read from its beginning.
  PredictionStream(std::shared_ptr<const Hooks> hooks, std::unique_ptr<LoadedModel> model,
                   const DistributedDataset& data, Options options);
  ~PredictionStream();
  PredictionStream(PredictionStream&&) noexcept;

  /// The outputs of the next example (each without the batch dimension) or of the next batch; unset
  /// at the end. Throws: ConfigError if no output has a requested name, or, per example, if outputs
  /// differ in their batch length; what predict_step throws.
  [[nodiscard]] std::optional<Predictions> next();

 private:
  bool read_batch();

  std::shared_ptr<const Hooks> hooks_;
  std::unique_ptr<LoadedModel> model_;
  Options options_;
  Epoch epoch_;
  Predictions batch_;  // the present one's outputs
  std::int64_t examples_ = 0;
  std::int64_t next_example_ = 0;
};

}  // namespace troupe
