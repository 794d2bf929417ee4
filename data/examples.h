// Examples one at a time: reading them, changing them at random, and making a batch of them.
//
// Legend: N examples of the data set, B of them in a batch, L values in the longest one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/data/dataset.h"

namespace troupe {

/// The fields of one example, without the dimension that counts examples.
using Example = std::vector<at::Tensor>;

/// Makes a batch: fields [B, ...] of B >= 1 examples, the same number in every call. One's own is a
/// function; several threads may call it at once.
using Collate = std::function<std::vector<at::Tensor>(const std::vector<Example>&)>;

/// Field by field, where all examples have the same shapes: fields[i] [B, ...].
/// Throws: DataError naming example and field, if they differ.
[[nodiscard]] std::vector<at::Tensor> stack(const std::vector<Example>& examples);

/// Rows of different lengths, filled up to the longest.
struct PaddedRows {
  at::Tensor values;  // [B, L, ...]
  at::Tensor mask;    // [B, L] bool: true where a value is a row's own. Lengths: mask.sum(1)
};
/// Shapes: rows[i] [l_i, ...], alike but for l_i >= 0; at least one row.
/// Throws: DataError if other dimensions differ or types do.
[[nodiscard]] PaddedRows pad(const std::vector<at::Tensor>& rows, double value = 0);

/// A Collate for ragged examples: pads the fields numbered `ragged`, which in each example have
/// the same length, stacks the others, and appends the mask: fields ..., [B, L, ...], ..., mask.
/// The function throws DataError as stack() and pad(), and where lengths differ within an example.
[[nodiscard]] Collate padded(std::vector<std::size_t> ragged = {0}, double value = 0);

/// A data set of a function that reads one example.
class ExampleDataset final : public detail::DrawnDataset {
 public:
  /// `read` reads example `index`, in [0, N). What is random in it comes from `random` alone.
  /// Called from a loader's threads, under the rules of Dataset::get(). Throws: ConfigError if size
  /// < 0 or a function is empty.
  ExampleDataset(std::int64_t size,
                 std::function<Example(std::int64_t index, ExampleRandom& random)> read,
                 Collate collate = stack);

  [[nodiscard]] std::int64_t size() const override { return size_; }
  void draw_into(const at::Tensor& indices, const DrawPlace& place,
                 std::vector<at::Tensor>& fields) const override;

 private:
  std::int64_t size_;
  std::function<Example(std::int64_t, ExampleRandom&)> read_;
  Collate collate_;
};

/// `dataset`, whose examples go through `transform` one by one; they are read a batch at a time.
/// `transform` changes an example, at random if it likes: an augmentation. It returns tensors of
/// its own or the given ones, and does not write to these: another replica may borrow them. Several
/// threads may call it at once.
/// Throws: ConfigError if an argument is null.
[[nodiscard]] std::shared_ptr<const Dataset> transformed(
    std::shared_ptr<const Dataset> dataset,
    std::function<Example(Example, ExampleRandom&)> transform, Collate collate = stack);

}  // namespace troupe
