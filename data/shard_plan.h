// ShardPlan: which replica sees which examples in which step. A pure function of its options, so
// every worker knows every step of every replica without a message. Free of LibTorch.
//
// The *order* of an epoch is a permutation of all examples; step s takes the s-th global batch of
// it, and each replica takes its *share* of that batch.
#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

enum class Shuffle { no, yes };

struct ShardPlanOptions {
  std::int64_t examples = 0;       // of the data set; 0: an epoch has no steps
  std::int64_t global_batch = 64;  // examples of a step over all replicas; the last step has fewer
  int replicas = 1;                // over all workers
  std::uint64_t seed = 1;
  Shuffle shuffle = Shuffle::yes;
};

/// Part of an epoch's order: the `count` examples from `offset` on. count may be 0.
struct Share {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Immutable; any thread may call.
class ShardPlan {
 public:
  /// Throws: ConfigError naming the option.
  explicit ShardPlan(const ShardPlanOptions& options);

  [[nodiscard]] const ShardPlanOptions& options() const { return options_; }
  /// examples / global_batch, rounded up.
  [[nodiscard]] std::int64_t steps_per_epoch() const;
  /// Examples of `step`, which counts from 0 in the epoch: global_batch, fewer in the last step.
  [[nodiscard]] std::int64_t global_examples(std::int64_t step) const;
  /// What `replica` (0 <= replica < replicas) takes in `step`: a batch of n goes to r replicas in
  /// chunks of ceil(n / r), so trailing replicas get fewer or none; replica 0 always has some.
  /// Source: tf.distribute's rebatching rule.
  [[nodiscard]] Share share(std::int64_t step, int replica) const;
  /// The permutation of 0 .. examples - 1 that `epoch` reads: it depends only on (seed, epoch) and
  /// the number of examples, and is the same on every machine and for any number of replicas.
  /// Without shuffling 0, 1, 2, ... in every epoch.
  /// Source: Fisher and Yates' shuffle over std::mt19937_64, whose output the standard defines.
  [[nodiscard]] std::vector<std::int64_t> order(std::int64_t epoch) const;

 private:
  ShardPlanOptions options_;
};

}  // namespace troupe
