// Examples one at a time: reading them, changing them at random, and making a batch of them.
//
// Legend: N examples of the data set, B of them in a batch, L values in the longest one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
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

/// The same for fields of lengths of their own, such as a graph's nodes and its edges: pads each of
/// the fields numbered `ragged` by itself, and appends a mask for each, in that order.
[[nodiscard]] Collate padded_apart(std::vector<std::size_t> ragged, double value = 0);

/// Rows of different lengths without what fills them up, one after the other.
struct RaggedRows {
  at::Tensor values;   // [R, ...], R rows of all B examples
  at::Tensor example;  // [R] int64: whose row it is, 0 .. B-1
  at::Tensor offsets;  // [B + 1] int64: example i has the rows offsets[i] .. offsets[i + 1] - 1
};
/// A padded field of a batch as a step computes with it: boxes of all pictures, nodes of all
/// graphs. Losses of rows go to Replica::global_mean(losses [R], weights [R]). Shapes: values [B,
/// L, ...], mask [B, L] bool, as pad() gives them. R may be 0. The values keep their graph. Throws:
/// ConfigError for other shapes. The host waits for the device here.
[[nodiscard]] RaggedRows ragged(const at::Tensor& values, const at::Tensor& mask);

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

namespace detail {

/// What a torch::data example holds, as fields; `target` is absent where it has none.
template <class E>
auto fields_of(const E& example, int) -> decltype(Example{example.data, example.target}) {
  return {example.data, example.target};
}
template <class E>
Example fields_of(const E& example, long) {
  return {example.data};
}

template <class E>
std::vector<at::Tensor> batch_of(const E& collated) {
  return fields_of(collated, 0);
}
template <class E>
std::vector<at::Tensor> batch_of(const std::vector<E>& examples) {
  std::vector<Example> all;
  for (const E& example : examples) all.push_back(fields_of(example, 0));
  return stack(all);
}

template <class TorchDataset>
class TorchData final : public Dataset {
 public:
  explicit TorchData(TorchDataset dataset) : dataset_(std::move(dataset)) {}

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(dataset_.size().value());
  }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    const std::int64_t* const begin = indices.data_ptr<std::int64_t>();
    std::vector<std::size_t> numbers(begin, begin + indices.numel());
    const std::lock_guard<std::mutex> alone(mutex_);  // get_batch may change it
    return batch_of(dataset_.get_batch(numbers));
  }

 private:
  mutable std::mutex mutex_;
  mutable TorchDataset dataset_;
};

}  // namespace detail

/// A data set of torch::data, with or without .map(...):
///   splits.train = troupe::from_torch_data(torch::data::datasets::MNIST("data"));
/// Its examples are data, or data and target, and random access to them has a known size. What is
/// random in it draws from LibTorch's generator, and so differs between numbers of workers: put
/// augmentations into transformed(). One loader thread at a time reads it.
template <class TorchDataset>
[[nodiscard]] std::shared_ptr<const Dataset> from_torch_data(TorchDataset dataset) {
  if (!dataset.size().has_value()) {
    throw ConfigError("from_torch_data() was given a data set that does not know its size.",
                      "read it as a StreamDataset.");
  }
  return std::make_shared<detail::TorchData<TorchDataset>>(std::move(dataset));
}

/// `dataset`, whose examples go through `transform` one by one; they are read a batch at a time.
/// `transform` changes an example, at random if it likes: an augmentation. It returns tensors of
/// its own or the given ones, and does not write to these: another replica may borrow them. Several
/// threads may call it at once.
/// Throws: ConfigError if an argument is null.
[[nodiscard]] std::shared_ptr<const Dataset> transformed(
    std::shared_ptr<const Dataset> dataset,
    std::function<Example(Example, ExampleRandom&)> transform, Collate collate = stack);

}  // namespace troupe
