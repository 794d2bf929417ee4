// DistributedDataset: a data set as the replicas of this worker read it, epoch by epoch, a few
// steps ahead of the training thread.
//
// Threads: each Epoch owns LoaderOptions::threads loader threads, which call the data set, each for
// a step of its own, and a queue of finished steps, which leave it in order: with any number of
// threads they are the same. The Epoch itself belongs to one thread. A step that was read goes back
// to the loader threads, which gather another one into its tensors, unless they are still in use:
// in the steady state nothing is allocated.
// Where a worker's replicas change while an epoch is read (elastic groups), the steps that wait are
// dropped, and read again for those that it has now.
// ATen runs single-threaded on loader threads, so a gather does not compete with the training
// thread's compute threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "troupe/core/options/data_options.h"
#include "troupe/core/pull_range.h"
#include "troupe/data/batch.h"
#include "troupe/data/dataset.h"

namespace troupe {

class ShardPlan;

/// The steps of one epoch, in order, once: for (const DistributedBatch& batch : data.epoch(e)).
/// Destroying it before the end stops the loader threads after their current get() and joins them.
/// Moving it invalidates iterators.
class Epoch final : public detail::PullRange<Epoch, const DistributedBatch> {
 public:
  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ~Epoch();

  /// The next step, until the one after it is asked for (copy it, or its tensors, to keep them);
  /// null at the end. Blocks: until Dataset::get() has finished that step; meanwhile a warning
  /// every LoaderOptions::warn_after names it. Throws: the Error that Dataset::get() threw, or a
  /// HookError with what else it threw; DataError if get() returned fields of the wrong length.
  [[nodiscard]] const DistributedBatch* next();
  /// At the first step. Blocks and throws as next(), as advancing does; ConfigError if called
  /// twice.
  [[nodiscard]] Iterator begin();

 private:
  friend class DistributedDataset;
  struct Reader;
  struct State;
  explicit Epoch(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// A data set, divided by `plan` over all replicas, as the replicas in `range` of this worker read
/// it. Copies share the data set. A replica without an example of its own in a step gets replica
/// 0's share as a stand-in.
class DistributedDataset {
 public:
  /// `range` may change between two steps, by the thread that reads.
  /// Throws: ConfigError if dataset is null or its size differs from the plan's, if the replicas
  /// are not among the plan's, or if an option is out of range.
  DistributedDataset(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
                     std::shared_ptr<const detail::ReplicaRange> range,
                     const LoaderOptions& options = {});
  DistributedDataset(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
                     int first_replica, int local_replicas, const LoaderOptions& options = {});

  /// Of the whole data set, over all workers; kUnknownSize: of a stream.
  [[nodiscard]] std::int64_t examples() const;
  /// Unset: of a stream, whose end is known when it is read.
  [[nodiscard]] std::optional<std::int64_t> steps_per_epoch() const;
  /// Examples of a full step over all replicas of all workers.
  [[nodiscard]] std::int64_t global_batch_size() const;
  [[nodiscard]] const ShardPlan& plan() const;
  /// What must be equal on all workers, and in a resumed run, for the steps to be.
  /// Cost and throws: as ShardPlan::order_signature().
  [[nodiscard]] std::string order_signature() const;

  /// The steps of `position`'s epoch from there on: exactly the tail of epoch(position.epoch).
  /// Collective: no. Starts the loader threads; the result may outlive this object.
  /// Throws: ConfigError if the epoch is below 0 or its step not in [0, steps_per_epoch()].
  [[nodiscard]] Epoch epoch(const DataPosition& position) const;
  [[nodiscard]] Epoch epoch(std::int64_t epoch, std::int64_t first_step = 0) const {
    return this->epoch(DataPosition{epoch, first_step});
  }
  /// Where reading continues after `batch`, one of this data.
  [[nodiscard]] DataPosition after(const DistributedBatch& batch) const;

  /// The first `most` examples in another order and in batches of another size over all replicas;
  /// of a stream nothing can be had so.
  [[nodiscard]] DistributedDataset first(std::int64_t most, std::int64_t global_batch,
                                         Sampler order) const;

  /// By what the job's data is recognised (data/data_digest.h); "": nobody looked.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  void set_digest(std::string digest) { digest_ = std::move(digest); }
  /// As Splits::unit.
  [[nodiscard]] const std::string& unit() const { return unit_; }
  void set_unit(std::string unit) { unit_ = std::move(unit); }

 private:
  std::shared_ptr<const StepSource> source_;
  std::shared_ptr<const detail::ReplicaRange> range_;
  std::string digest_;
  std::string unit_ = "epoch";
};

}  // namespace troupe
