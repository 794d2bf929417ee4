// One pass over evaluation data with one replica: losses and metrics as Estimator reports them.
#pragma once

#include <cstdint>
#include <optional>

#include "troupe/data/loader.h"
#include "troupe/hooks/hooks.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"
#include "troupe/train/evaluation/evaluation.h"

namespace troupe::detail {

/// A metric whose name starts with this character is reported without it, and replaces an earlier
/// metric of that name: so an added metric replaces the hooks' own, which still adds up.
inline constexpr char kReplaces = '+';

struct EvaluationPass {
  Phase phase = Phase::validation;    // or test
  std::optional<std::int64_t> steps;  // batches; unset: all
  std::int64_t global_step = 0;       // of the weights, for the result
  Actions actions;                    // called around every batch
};

/// "loss" is the mean of the batches' losses, "average_loss" the mean over examples. Random streams
/// are left alone; the replica stays in evaluation mode, holding the pass's metrics of that phase.
/// Throws: ConfigError if a metric or loss is called "global_step" or "average_loss", or the data
/// is empty; what the step throws.
[[nodiscard]] Evaluation run_evaluation(const Hooks& hooks, Replica& replica,
                                        const DistributedDataset& data, const EvaluationPass& pass);

/// The same by all workers of a group, of the state that they train, which is as before afterwards;
/// on every worker alike. Of the validation data, or else the test data, as training has it.
/// Unset: there is none that is counted, or the state's metrics are not those of `hooks`, so that
/// one process has to do it.
/// Collective: yes.  Throws: as run_evaluation.
[[nodiscard]] std::optional<Evaluation> evaluate_together(Strategy& strategy, const Hooks& hooks,
                                                          TrainState& state,
                                                          const DistributedSplits& data,
                                                          std::int64_t batch_size,
                                                          std::optional<std::int64_t> steps);

/// All examples in their order, for one replica. Throws: ConfigError if there are none.
[[nodiscard]] DistributedDataset in_order(const std::shared_ptr<const Dataset>& dataset,
                                          std::int64_t batch_size, const LoaderOptions& loader,
                                          const char* what);

}  // namespace troupe::detail
