// Batch: the input of one replica in one step; DistributedBatch: the same for every replica of this
// worker. Plain values; tensors are shared by reference as everywhere in LibTorch.
//
// Legend: B examples of this replica in this step.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {

/// One replica's share of a global batch. `fields` is never empty and B is at least 1, even in a
/// stand-in.
struct Batch {
  std::vector<at::Tensor> fields;    // fields[i] [B, ...], the same B in all; the data set's order
  std::int64_t global_examples = 0;  // examples of this step over all replicas of all workers
  /// This replica has no example of its own in this step. Its fields are another replica's, so that
  /// the step takes the same path everywhere; its results must have zero weight.
  bool stand_in = false;

  /// B; 0 for a stand-in.
  [[nodiscard]] std::int64_t examples() const {
    return stand_in || fields.empty() ? 0 : fields.front().size(0);
  }

  /// All fields at once: `const auto [images, labels] = batch.unpack<2>();`
  /// Throws: ConfigError if there are not N fields.
  template <std::size_t N>
  [[nodiscard]] std::array<at::Tensor, N> unpack() const {
    if (fields.size() != N) {
      throw ConfigError(text("batch.unpack<", N, ">() asks for ", N, N == 1 ? " field" : " fields",
                             ", the data set's batches have ", fields.size(), "."),
                        text("call unpack<", fields.size(),
                             ">() in the step hook, or change what create_datasets returns; "
                             "predict_step gets the inputs alone, all fields but the last unless "
                             "feature_names says otherwise."));
    }
    std::array<at::Tensor, N> result;
    for (std::size_t i = 0; i < N; ++i) result[i] = fields[i];
    return result;
  }
};

class StepSource;  // data/step_source.h

namespace detail {

/// Some of a step's replicas, or virtual replicas, by their numbers: those of one worker.
struct ReplicaRange {
  int first = 0;
  int count = 1;

  [[nodiscard]] bool operator==(const ReplicaRange& other) const {
    return first == other.first && count == other.count;
  }
  [[nodiscard]] bool operator!=(const ReplicaRange& other) const { return !(*this == other); }
};

/// A place in a stream (data/stream.h) from which it can be read on: everything else has none.
struct StreamPlace {
  std::int64_t block = 0;   // how many of the epoch's blocks lie before it
  std::int64_t before = 0;  // and how many examples
};

}  // namespace detail

/// Where reading continues: step `step` of epoch `epoch` is the next to be read. A checkpoint saves
/// it; DistributedDataset::epoch(position) continues exactly there.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;        // within the epoch
  bool at_end = false;          // the epoch has no such step: all of it was read
  detail::StreamPlace place{};  // at or before the step; saves reading what came before
};

/// The input of this worker's replicas in one step.
struct DistributedBatch {
  std::vector<Batch> replicas;       // one per replica of this worker, in rank order
  std::int64_t global_examples = 0;  // as in Batch; at least 1
  std::int64_t epoch = 0;
  std::int64_t step = 0;        // within the epoch, from 0
  bool last = false;            // of the epoch, on all workers alike
  detail::StreamPlace place{};  // of a stream: at or before this step
  int first_replica = 0;        // which `replicas` are, among those of all workers
  /// Reads the step again where the worker's replicas have changed; null: made by hand.
  std::shared_ptr<const StepSource> source = nullptr;

  [[nodiscard]] detail::ReplicaRange range() const {
    return {first_replica, static_cast<int>(replicas.size())};
  }
};

}  // namespace troupe
