// StepSource: what the steps of a DistributedDataset are read from, a data set of counted examples
// or a stream. EpochSteps: one epoch of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/core/options/data_options.h"
#include "troupe/data/batch.h"
#include "troupe/data/dataset.h"
#include "troupe/data/examples.h"
#include "troupe/data/shard_plan.h"

namespace troupe {

class StreamDataset;

/// One step that was drawn from an epoch and is not gathered yet. Each loader thread has one, whose
/// memory is used again.
struct StepDraw {
  std::int64_t step = 0;
  std::int64_t examples = 0;  // over all replicas; at least 1
  bool last = false;
  detail::StreamPlace place;
  std::vector<Example> read;  // of a stream: the step's examples, not transformed
  at::Tensor indices;         // of the last share: memory
};

/// The steps of one epoch, from a place on.
class EpochSteps {
 public:
  virtual ~EpochSteps() = default;

  /// The next step, in order; false: there is none. One thread at a time. Blocks: for a stream's
  /// blocks. Throws: what reading a stream throws; what a sampler throws.
  [[nodiscard]] virtual bool draw(StepDraw& next) = 0;
  /// Part of a drawn step as `fields`, whose memory may be used again. Several threads at once.
  /// Throws: as Dataset::get(); DataError for fields of the wrong length.
  virtual void gather(StepDraw& step, const Share& in_step,
                      std::vector<at::Tensor>& fields) const = 0;
};

/// Thread rule: any thread.
class StepSource {
 public:
  /// Throws: ConfigError if `dataset` is null or its size is not the plan's.
  StepSource(std::shared_ptr<const Dataset> dataset, const ShardPlan& plan,
             const LoaderOptions& options);

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] const LoaderOptions& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  /// What must be equal on all workers, and in a resumed run, for the steps to be: as
  /// ShardPlan::order_signature().
  [[nodiscard]] std::string order_signature() const;
  /// `from` is in an epoch of the plan. The result does not outlive this object.
  [[nodiscard]] std::unique_ptr<EpochSteps> open(const DataPosition& from) const;

  /// Counted examples by index. Throws: as EpochSteps::gather().
  void get_into(const at::Tensor& indices, const DrawPlace& place,
                std::vector<at::Tensor>& fields) const;

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const StreamDataset* const stream_;  // null: examples are counted
  const ShardPlan plan_;
  const LoaderOptions options_;
  mutable std::mutex in_use_;  // without several loader threads no two read at the same time
};

/// Makes `batch`, which may be an earlier step, the replicas in `range` of a drawn step.
/// Blocks and throws: as EpochSteps::gather().
void gather(const std::shared_ptr<const StepSource>& source, const EpochSteps& steps,
            StepDraw& draw, std::int64_t epoch, const detail::ReplicaRange& range,
            DistributedBatch& batch);

/// The numbers of a share's examples in the data set, in their order; empty: of a stream, of a
/// batch that was made by hand, and of a stand-in. Cost: the epoch's order is made again.
[[nodiscard]] std::vector<std::int64_t> example_numbers(const DistributedBatch& batch,
                                                        std::size_t share);

/// The first of them: "3, 17, 4, 9".
[[nodiscard]] std::string example_list(const DistributedBatch& batch, std::size_t share);

/// A step again, with the replicas in `range`, in this thread.  Blocks and throws: as
/// Dataset::get(). Cost: the epoch's order is made again, and of a stream the blocks are read again
/// that the step is in. batch.source is set.
[[nodiscard]] DistributedBatch read_again(const DistributedBatch& batch,
                                          const detail::ReplicaRange& range);

namespace detail {

/// As StepSource::open(), of its data set, which is `stream`.
[[nodiscard]] std::unique_ptr<EpochSteps> open_stream(const StreamDataset& stream,
                                                      const ShardPlan& plan,
                                                      const DataPosition& from);

/// What EpochSteps::gather() got. Throws: DataError for anything but one or more [examples, ...].
void check_fields(const std::vector<at::Tensor>& fields, std::int64_t examples);

}  // namespace detail
}  // namespace troupe
