// Evaluation: every example of a data set once, over all workers, exact for any number of them.
#pragma once

#include <functional>
#include <optional>

#include "troupe/hooks/losses.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/strategy.h"

namespace troupe {

/// Runs validation_step or test_step over `data` and reduces losses and metrics; every rank gets
/// the same report. Buffers are synchronised first, so all workers evaluate the same weights: the
/// averages if state.averages has any; the replicas' own are restored afterwards.
/// Shapes: phase is Phase::validation or Phase::test.  Collective: yes.
/// `each`, if set, is called with the results of every batch; it may be collective.
[[nodiscard]] Report evaluate(
    Strategy& strategy, const Hooks& hooks, TrainState& state, const DistributedDataset& data,
    Phase phase, const std::function<void(const std::vector<StepResult>&)>& each = nullptr);

/// The same for the test split; after TrainingRun::finish. Unset if create_datasets gave none, or
/// if another worker does it: the chief, if workers go at their own pace (parameter servers).
[[nodiscard]] std::optional<Report> test(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                         const DistributedSplits& data);

/// Predictions of the whole data set, batch by batch, in its order, by this worker alone; with
/// averaged weights as evaluate.
/// Collective: no.
[[nodiscard]] std::vector<Predictions> predict(const Hooks& hooks, TrainState& state,
                                               std::shared_ptr<const Dataset> dataset,
                                               std::int64_t batch_size);

namespace detail {

/// hooks.predict_step on the replica's device, outside training; 16-bit outputs become float32.
/// `steps` of training came before. Throws: as run_on_replica.
[[nodiscard]] Predictions predict_batch(const Hooks& hooks, Replica& replica, Batch batch,
                                        std::int64_t steps);

/// Adds up losses and metrics of all workers; the replicas keep their own sums.  Collective: yes.
[[nodiscard]] Report reduce_report(Strategy& strategy, TrainState& state, const LossMeter& meter,
                                   Phase phase);

}  // namespace detail
}  // namespace troupe
