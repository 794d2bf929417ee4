// ShardPlan: which replica sees which examples in which step. A pure function of its options, so
// every worker knows every step of every replica without a message. Free of LibTorch.
//
// The *order* of an epoch is the sampler's (data/sampler.h); step s takes the s-th global batch of
// it, and each replica takes its *share* of that batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/data/sampler.h"

namespace troupe {

struct ShardPlanOptions {
  std::int64_t examples = 0;       // of the data set; 0: an epoch has no steps; -1: a stream's,
                                   // which nobody has counted
  std::int64_t global_batch = 64;  // examples of a step over all replicas; the last step has fewer
  int replicas = 1;                // over all workers
  std::uint64_t seed = 1;
  Sampler sampler = shuffled();
  std::int64_t batches = 1;  // global batches in a step: several where replicas make updates apart
  bool drop_last = false;    // an epoch's last batch is left out if it is short
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
  /// Examples that an epoch reads: the sampler's draws, or as many as the data set has, less those
  /// of a short last batch with drop_last; -1: of a stream, that end when it does.
  [[nodiscard]] std::int64_t epoch_examples() const;
  [[nodiscard]] bool is_stream() const { return options_.examples < 0; }
  /// epoch_examples() / global_batch, rounded up; unset: unknown until a stream ends.
  [[nodiscard]] std::optional<std::int64_t> steps_per_epoch() const;
  /// Examples of `step`, which counts from 0 in the epoch: global_batch, fewer in the last step.
  /// Like share() and order(), not of a stream.
  [[nodiscard]] std::int64_t global_examples(std::int64_t step) const;
  /// The fewest examples, above none, that a replica computes together in a step, with steps in
  /// `parts`; unset: of a stream, unless it drops its last batch.
  [[nodiscard]] std::optional<std::int64_t> smallest_part(std::int64_t parts) const;
  /// What `replica` (0 <= replica < replicas) takes in `step`: a batch of n goes to r replicas in
  /// chunks of ceil(n / r), so trailing replicas get fewer or none; replica 0 always has some.
  /// Source: tf.distribute's rebatching rule.
  [[nodiscard]] Share share(std::int64_t step, int replica) const;
  /// The same of a step of `in_step` examples, counted from the step's first.
  [[nodiscard]] Share share_of(std::int64_t in_step, int replica) const;
  /// The examples that `epoch` reads, epoch_examples() numbers below examples: they depend only on
  /// the sampler, (seed, epoch), the number of examples and the size of a batch, and are the same
  /// on every machine and for any number of replicas. Throws: ConfigError for an order of one's own
  /// that is none; what the sampler throws.
  [[nodiscard]] std::vector<std::int64_t> order(std::int64_t epoch) const;
  /// What must be equal on all workers and in a resumed run for the orders to be: the sampler's
  /// name, and a digest of its first order unless that depends on its argument alone.
  /// Cost: that order. Throws: as order().
  [[nodiscard]] std::string order_signature() const;

 private:
  ShardPlanOptions options_;
};

}  // namespace troupe
