// Evaluation: every example of a data set once, over all workers, exact at any number of them.
#pragma once

#include <optional>

#include "hooks/losses.h"
#include "strategies/strategy.h"
#include "train/report.h"

namespace troupe {

/// Runs validation_step or test_step over `data` and reduces losses and metrics; every rank gets
/// the same report. Buffers are synchronised first, so all workers evaluate the same weights: the
/// averages where state.averages has some, and back to the replicas' own afterwards.
/// Shapes: phase is Phase::validation or Phase::test.  Collective: yes.
[[nodiscard]] Report evaluate(Strategy& strategy, const Hooks& hooks, TrainState& state,
                              const DistributedDataset& data, Phase phase);

/// The same for the test split; after TrainingRun::finish. Unset where create_datasets gave none,
/// and where another worker does it: at an own pace (parameter servers) the chief.
[[nodiscard]] std::optional<Report> test(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                         const DistributedSplits& data);

/// Predictions of the whole data set, batch by batch, in its order, by this worker alone; with
/// averaged weights as evaluate.
/// Collective: no.
[[nodiscard]] std::vector<Predictions> predict(const Hooks& hooks, TrainState& state,
                                               std::shared_ptr<const Dataset> dataset,
                                               std::int64_t batch_size);

namespace detail {

/// hooks.predict_step on the replica's device, outside of training; outputs of 16 bits in float32.
[[nodiscard]] Predictions predict_batch(const Hooks& hooks, Replica& replica, Batch batch);

/// Adds up losses and metrics of all workers; the replicas keep their own sums.  Collective: yes.
[[nodiscard]] Report reduce_report(Strategy& strategy, TrainState& state, const LossMeter& meter,
                                   Phase phase);

}  // namespace detail
}  // namespace troupe
