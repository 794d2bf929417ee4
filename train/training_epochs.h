// The two ranges of a training loop: its epochs, and the batches of one.
//
//   for (auto& epoch : run.epochs()) {
//     for (const auto& batch : epoch) run.train_step(batch);
//     run.validate();
//   }
//
// Each step of a range is a boundary of the training (train/training_run.h): it closes what came
// before, so it is collective, may save, and throws what the verbs throw.
#pragma once

#include <cstdint>

#include "core/pull_range.h"
#include "data/loader.h"

namespace troupe {

/// The batches of an epoch that are left for this worker, once each. A batch is valid until the
/// next one. Leaving the inner loop and entering it again continues with the next batch.
class TrainingEpoch : public PullRange<TrainingEpoch, const DistributedBatch> {
 public:
  [[nodiscard]] virtual std::int64_t number() const = 0;  // from 0
  /// Null: the epoch or the training is over.
  [[nodiscard]] virtual const DistributedBatch* next() = 0;

 protected:
  ~TrainingEpoch() = default;
};

/// The epochs that are left. An epoch that the next one follows is over, whatever was read of it.
class TrainingEpochs : public PullRange<TrainingEpochs, TrainingEpoch> {
 public:
  /// Null: training is over.
  [[nodiscard]] virtual TrainingEpoch* next() = 0;

 protected:
  ~TrainingEpochs() = default;
};

}  // namespace troupe
