// StreamDataset: examples that come in blocks, for files larger than memory and data that nobody
// has counted. Only a window of blocks is in memory.
//
// Every worker reads every block, so all know each step, and the end of an epoch, without a
// message; the transform runs for the examples of a worker's own replicas alone. What costs more
// than reading, such as decoding, belongs there.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "troupe/data/dataset.h"
#include "troupe/data/examples.h"

namespace troupe {

struct StreamOptions {
  /// How many blocks there are: then their order is shuffled, too. 0: unknown until one is missing,
  /// and they are read in order.
  std::int64_t blocks = 0;
  /// Blocks that are in memory together; a shuffled epoch mixes their examples.
  std::int64_t window = 16;
  /// Of each example that a replica of this worker gets, as transformed()'s; null: none.
  std::function<Example(Example, ExampleRandom&)> transform;
  Collate collate = stack;
};

class StreamDataset final : public Dataset {
 public:
  /// `read` returns block `number`, from 0 on; unset: the stream ended before it. A block may be
  /// empty. The same on every worker and in every epoch. Any block may be asked for: a resumed run
  /// begins where it stopped. Called from a loader's threads, one call at a time.
  /// Throws: ConfigError if a function is null or a number is out of range.
  explicit StreamDataset(
      std::function<std::optional<std::vector<Example>>(std::int64_t number)> read,
      StreamOptions options = {});

  [[nodiscard]] std::int64_t size() const override { return kUnknownSize; }
  /// Examples by their place in the stream, from its first block on, transformed.
  /// Cost: reads the stream up to the last of them. Throws: DataError if it ends before.
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override;

  [[nodiscard]] const StreamOptions& options() const { return options_; }
  /// Block `number`. Throws: DataError if it is missing among options().blocks; what `read` throws.
  [[nodiscard]] std::optional<std::vector<Example>> block(std::int64_t number) const;
  /// The transformed examples as a batch; `place` is the first one's.
  /// Throws: DataError if collate does not return one or more [B, ...].
  [[nodiscard]] std::vector<at::Tensor> batch(std::vector<Example> examples,
                                              const DrawPlace& place) const;

 private:
  std::function<std::optional<std::vector<Example>>(std::int64_t)> read_;
  StreamOptions options_;
  mutable std::mutex in_use_;  // read_, by one thread at a time
};

}  // namespace troupe
