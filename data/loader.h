// DistributedDataset: a data set as the replicas of this worker read it, epoch by epoch, a few
// steps ahead of the training thread.
//
// Threads: each Epoch owns one prefetch thread, which calls Dataset::get_into(), and a queue of at
// most LoaderOptions::prefetch_steps finished steps. The Epoch itself belongs to one thread. A step
// that was read goes back to the prefetch thread, which gathers another one into its tensors,
// unless they are still in use: in the steady state nothing is allocated.
// Where a worker's replicas change while an epoch is read (elastic groups), the steps that wait are
// dropped, and read again for those that it has now.
// ATen runs single-threaded on the prefetch thread, so a gather does not compete with the training
// thread's compute threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/shard_plan.h"

namespace troupe {

/// Where reading continues: step `step` of epoch `epoch` is the next to be read. A checkpoint saves
/// these two numbers; epoch(position.epoch, position.step) continues exactly there.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // within the epoch
};

struct LoaderOptions {
  int prefetch_steps = 2;  // finished steps that may wait for the training thread; at least 1
  std::chrono::milliseconds warn_after{30'000};  // of waiting for Dataset::get(), repeatedly
};

/// The steps of one epoch, in order, once: for (const DistributedBatch& batch : data.epoch(e)).
/// Destroying it before the end stops the prefetch thread after its current get() and joins it.
class Epoch {
 public:
  class Iterator;

  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) noexcept;
  ~Epoch();

  /// The first step. Blocks: until Dataset::get() has finished that step; meanwhile a warning every
  /// LoaderOptions::warn_after names it. Throws: what Dataset::get() threw, with its type;
  /// DataError if get() returned fields of the wrong length; ConfigError if called twice.
  [[nodiscard]] Iterator begin();
  [[nodiscard]] Iterator end();

 private:
  friend class DistributedDataset;
  struct Reader;
  struct State;
  explicit Epoch(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Input iterator. Advancing blocks and throws as Epoch::begin() does and invalidates the batch it
/// pointed to (copy it, or its tensors, to keep them).
class Epoch::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = DistributedBatch;
  using difference_type = std::ptrdiff_t;
  using pointer = const DistributedBatch*;
  using reference = const DistributedBatch&;

  Iterator() = default;  // the end
  [[nodiscard]] reference operator*() const;
  [[nodiscard]] pointer operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  [[nodiscard]] bool operator==(const Iterator& other) const { return state_ == other.state_; }
  [[nodiscard]] bool operator!=(const Iterator& other) const { return state_ != other.state_; }

 private:
  friend class Epoch;
  explicit Iterator(State* state) : state_(state) {}

  State* state_ = nullptr;  // null at the end
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
                     std::shared_ptr<const ReplicaRange> range, const LoaderOptions& options = {});
  DistributedDataset(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
                     int first_replica, int local_replicas, const LoaderOptions& options = {})
      : DistributedDataset(
            std::move(dataset), plan,
            std::make_shared<ReplicaRange>(ReplicaRange{first_replica, local_replicas}), options) {}

  /// Of the whole data set, over all workers.
  [[nodiscard]] std::int64_t examples() const { return plan().options().examples; }
  [[nodiscard]] std::int64_t steps_per_epoch() const { return plan().steps_per_epoch(); }
  /// Examples of a full step over all replicas of all workers.
  [[nodiscard]] std::int64_t global_batch_size() const { return plan().options().global_batch; }
  [[nodiscard]] const ShardPlan& plan() const;

  /// The steps of `epoch` (>= 0) from `first_step` on: exactly the tail of epoch(epoch).
  /// Collective: no. Starts the prefetch thread; the result may outlive this object.
  /// Throws: ConfigError if first_step is not in [0, steps_per_epoch()].
  [[nodiscard]] Epoch epoch(std::int64_t epoch, std::int64_t first_step = 0) const;

 private:
  std::shared_ptr<const StepSource> source_;
  std::shared_ptr<const ReplicaRange> range_;
};

/// What the steps of a DistributedDataset are read from.  Thread rule: any thread; one at a time
/// calls the data set.
class StepSource {
 public:
  StepSource(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
             const LoaderOptions& options)
      : dataset_(std::move(dataset)), plan_(plan), options_(options) {}

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] const LoaderOptions& options() const { return options_; }
  /// The examples at `indices` as `fields`, whose memory may be used again.
  /// Throws: as Dataset::get(); DataError for fields of the wrong length.
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const;
  /// The replicas in `range` of one step of an epoch, in this thread.  Blocks and throws: as
  /// Dataset::get(). Cost: the epoch's order is made again.
  [[nodiscard]] static DistributedBatch read(const std::shared_ptr<const StepSource>& source,
                                             std::int64_t epoch, std::int64_t step,
                                             const ReplicaRange& range);

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const ShardPlan plan_;
  const LoaderOptions options_;
  mutable std::mutex in_use_;
};

}  // namespace troupe
