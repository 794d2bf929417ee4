// Predictions of a trained model in this process.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/data/loader.h"
#include "troupe/hooks/hooks.h"

namespace troupe {

class LoadedModel;

/// Predictions, computed batch by batch as they are asked for.
class PredictionStream {
 public:
  /// `hooks` is shared with the stream; `data` is read from its beginning. `keys`: outputs to
  /// return; empty: all. `features`: how many leading fields predict_step sees; 0: all.
  PredictionStream(std::shared_ptr<const Hooks> hooks, std::unique_ptr<LoadedModel> model,
                   const DistributedDataset& data, std::vector<std::string> keys,
                   bool yield_single_examples, std::size_t features);
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
  std::vector<std::string> keys_;
  bool yield_single_examples_;
  std::size_t features_;
  Epoch epoch_;
  Predictions batch_;  // the present one's outputs
  std::int64_t examples_ = 0;
  std::int64_t next_example_ = 0;
};

}  // namespace troupe
