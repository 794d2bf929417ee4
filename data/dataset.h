// Dataset: examples by index, gathered a batch at a time. A batch-at-a-time interface costs a few
// tensor operations per batch, an example-at-a-time one a few per example.
//
// Legend: N examples of the data set, B of them in a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/data/gather_rows.h"
#include "troupe/data/sampler.h"
#include "troupe/data/split_mix.h"

namespace troupe {

/// Random numbers of one example in one epoch: below(n), uniform(low, high), normal(). Its next()
/// can seed any other generator.
using ExampleRandom = detail::SplitMix;

/// Where in a training a batch is read, which is what its examples' random numbers depend on: so
/// they are the same on any number of workers, replicas and loader threads, and in a resumed run.
struct DrawPlace {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // of the batch's first example, in the epoch's order

  /// Of the batch's example i. An example that an epoch reads twice has others the second time.
  [[nodiscard]] ExampleRandom random(std::int64_t i) const;
};

/// Dataset::size() of a stream (data/stream.h), which nobody has counted.
inline constexpr std::int64_t kUnknownSize = -1;

/// Examples by index. Immutable once built.
/// Thread: get() is called from a loader's threads. LoaderOptions::threads above 1 call it several
/// times at once, and so do two epochs (training and validation): get() must not change the object.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// N.
  [[nodiscard]] virtual std::int64_t size() const = 0;

  /// The examples at `indices`, in that order.
  /// Shapes: indices [B] int64, each in [0, N), B >= 1, not to be written to; result: one or more
  /// fields [B, ...], the same number in every call, sharing no memory with earlier results.
  /// Runs without gradients and with one compute thread. Draw no random numbers from LibTorch's
  /// default generator here: the training thread uses it at the same time.
  /// Blocks: as long as it takes; the loader warns every 30 s but cannot interrupt it.
  /// Throws: anything; in the training thread it becomes a HookError that names the examples,
  /// unless it is an Error.
  [[nodiscard]] virtual std::vector<at::Tensor> get(const at::Tensor& indices) const = 0;

  /// get() into `fields`. Override it if a batch can be written into existing tensors; the default
  /// calls get().
  /// Shapes: as get()'s. On entry `fields` is empty or holds the results of an earlier call, whose
  /// values and memory are no longer needed; fields still in use are passed as undefined tensors.
  virtual void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const;

  /// get_into() at a place of a training: what the loader calls. Override it if examples are
  /// changed at random; the default calls get_into().
  virtual void draw_into(const at::Tensor& indices, const DrawPlace& place,
                         std::vector<at::Tensor>& fields) const;

  /// Names of the classes that its labels count, by label; empty: it has none, or nobody knows. The
  /// data sets of a job whose classes differ are refused.
  [[nodiscard]] virtual std::vector<std::string> classes() const { return {}; }
};

namespace detail {

/// A data set whose get() is what it draws at no place of a training.
class DrawnDataset : public Dataset {
 public:
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const final {
    std::vector<at::Tensor> fields;
    draw_into(indices, {}, fields);
    return fields;
  }
};

}  // namespace detail

/// A data set held in memory: one tensor per field. Batches are gathered into the tensors of
/// earlier ones, without any allocation, unless a transform makes new ones.
class TensorDataset final : public detail::DrawnDataset {
 public:
  /// Shapes: fields[i] [N, ...], any dtype, the same N in all. The tensors are kept by reference.
  /// `transform`, if set, turns the gathered fields of a batch into those that the hooks see, in
  /// bulk. It is called like get() and under its rules; it may change its argument.
  /// Throws: DataError if there is no field, one is undefined or 0-dimensional, or N differs.
  explicit TensorDataset(
      std::vector<at::Tensor> fields,
      std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> transform = {});
  /// Fields of bytes (uint8) become float32 while they are gathered, so that pictures stay a byte a
  /// pixel in memory. Other fields are left unchanged.
  TensorDataset(std::vector<at::Tensor> fields, ByteScale scale);

  [[nodiscard]] std::int64_t size() const override;
  /// Throws, as get(): DataError if an index is not in [0, N), or `indices` is not [B].
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override;
  /// The `count` examples from `begin` on, all of which must exist; shares the memory.
  [[nodiscard]] std::shared_ptr<const TensorDataset> part(std::int64_t begin,
                                                          std::int64_t count) const;

 private:
  void gather(const at::Tensor& field, const at::Tensor& indices, at::Tensor& out) const;

  std::vector<at::Tensor> fields_;  // contiguous, [N, ...]
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> transform_;
  std::optional<ByteScale> scale_;
};

/// The `count` examples of `dataset` from `begin` on, as a data set; copies no example. Of a stream
/// they are numbered as in StreamDataset::get().
/// Throws: ConfigError if any of them does not exist; of a stream, get() throws that.
[[nodiscard]] std::shared_ptr<const Dataset> take(std::shared_ptr<const Dataset> dataset,
                                                  std::int64_t begin, std::int64_t count);

/// The first examples, at most `most`; of a stream, which nobody has counted, one.
[[nodiscard]] std::shared_ptr<const Dataset> first_of(const std::shared_ptr<const Dataset>& dataset,
                                                      std::int64_t most);

/// For a program whose steps make their examples themselves, in environments or in games against
/// itself: an epoch has `steps` steps of `per_step` examples, and an example is its number in the
/// step, 0 .. per_step - 1: the only field, [B] int64. So a replica knows which environments are
/// its own, on any number of workers. Give --batch-size for `per_step`. Throws: ConfigError if a
/// number is below 1.
[[nodiscard]] std::shared_ptr<const Dataset> own_steps(std::int64_t per_step, std::int64_t steps);

constexpr std::size_t kMostUnitBytes = 32;

/// The data sets of a task; null: there is none. Training reads its examples in the sampler's
/// order, validation and test in theirs.
struct Splits {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
  std::shared_ptr<const Dataset> test;
  Sampler sampler = shuffled();  // of train; of own_steps: sequential()
  std::string unit = "epoch";    // what a pass over train is called in log and report: "round"
};

/// The last `validation_examples` of `all` validate (0: none, null); of the others the first
/// `train_examples` train (0: all of them).
/// Throws: ConfigError if there are fewer than requested.
[[nodiscard]] Splits hold_out(const std::shared_ptr<const Dataset>& all,
                              std::int64_t validation_examples, std::int64_t train_examples);

}  // namespace troupe
