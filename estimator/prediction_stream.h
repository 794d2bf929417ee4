// PredictionStream: predictions, computed batch by batch as they are asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "estimator/loaded_model.h"
#include "hooks/hooks.h"

namespace troupe {

class PredictionStream {
 public:
  enum class Per { example, batch };
  struct Options {
    std::vector<std::string> keys;  // outputs to give; empty: all
    Per per = Per::example;
    std::size_t features = 0;  // how many leading fields predict_step sees; 0: all
  };

  /// `hooks` is shared with the stream; `data` is read from its beginning.
  PredictionStream(std::shared_ptr<const Hooks> hooks, std::unique_ptr<LoadedModel> model,
                   const DistributedDataset& data, Options options);
  ~PredictionStream();
  PredictionStream(PredictionStream&&) noexcept;

  /// The outputs of the next example (each without the batch dimension) or of the next batch; unset
  /// at the end. Throws: ConfigError where no output has a wanted name, or, per example, where
  /// outputs differ in their batch length; what predict_step throws.
  [[nodiscard]] std::optional<Predictions> next();

 private:
  bool read_batch();

  std::shared_ptr<const Hooks> hooks_;
  std::unique_ptr<LoadedModel> model_;
  Options options_;
  Epoch epoch_;
  Epoch::Iterator next_batch_;
  bool begun_ = false;
  Predictions batch_;  // the present one's outputs
  std::int64_t examples_ = 0;
  std::int64_t next_example_ = 0;
};

}  // namespace troupe
