// What a training looks at in its examples before and in its first steps: whether losses and
// metrics are what each example makes of them, how few examples are computed together, and whether
// a step changes the data set's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/hooks/report.h"
#include "troupe/strategies/strategy.h"

namespace troupe::detail {

/// Before the first step of a training. Validates a few examples together and in two halves: what
/// differs depends on which examples share a batch, and so on the number of replicas; what is
/// random is left out, and so are local_loss and a sum of means of different kinds. Warns of a
/// share of one example where a model has batch norm. Returns what the validation reports; unset:
/// there was nothing to look at. Collective: yes, in lockstep; else of the worker that validates.
/// Throws: ConfigError for a loss that differs, if replicas or parts are several; alone, and for a
/// metric, that is a warning. What validation_step throws.
std::optional<Report> look_at_examples(Strategy& strategy, const Hooks& hooks, TrainState& state,
                                       const DistributedSplits& data);

/// How many examples the smallest share, or part of one, has, if a model normalises over it (batch
/// norm): "the smallest share of a step has 1 example, ..."; "" otherwise, or if nobody knows.
/// `alone`: only of a share of one example, which cannot be normalised.
enum class Smallest { any, one };
[[nodiscard]] std::string smallest_share(const TrainState& state, const DistributedDataset& train,
                                         Smallest which);

/// The fields of a batch before a step.
class FieldMemory {
 public:
  explicit FieldMemory(const DistributedBatch& batch);
  /// After it. Throws: ConfigError if the step has changed a field in place, and the data set has
  /// returned memory of its own, which the next epoch reads.
  void check() const;

 private:
  const DistributedBatch& batch_;
  std::vector<std::uint32_t> versions_;
};

/// `error` with what this worker, or another one, finds at its root: a field of its batch that is
/// not finite, or its loss. Collective: yes, in lockstep.
[[nodiscard]] NonFiniteError at_its_root(const NonFiniteError& error, Strategy& strategy,
                                         const TrainState& state, const DistributedBatch& batch);

}  // namespace troupe::detail
