// The data sets of the examples: files where --data-dir names some, generated pictures elsewhere.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "examples/digits/digits.h"
#include "troupe/core/options/data_options.h"
#include "troupe/data/dataset.h"

namespace troupe {

/// As load_mnist, but where the files have no more training images than `validation_examples`, a
/// sixth of them validates; without options.data_dir generated digits, always the same 10,000
/// training, 1,000 validation (validation_examples 0: none, null) and 2,000 test images.
[[nodiscard]] Splits mnist_or_digits(const DataOptions& options, std::int64_t validation_examples);

/// As load_cifar10; without options.data_dir generated shapes, in the same numbers.
[[nodiscard]] Splits cifar10_or_shapes(const DataOptions& options,
                                       std::int64_t validation_examples);

/// Digits that are drawn when somebody first reads them, so that training begins at once and not
/// after half a second of drawing. Safe to read from any thread; one draws at a time.
/// Fields: images [B, 1, 28, 28] float32, byte * factor - shift; labels [B] int64 in 0 .. 9.
class GeneratedDigits final : public Dataset {
 public:
  /// generate_digits(split, count, seed), the same to the bit.
  GeneratedDigits(DigitsSplit split, std::int64_t count, std::uint64_t seed, ByteScale scale);

  [[nodiscard]] std::int64_t size() const override { return count_; }
  /// Throws: as TensorDataset::get().
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override;
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override;

 private:
  void draw_if_missing(std::int64_t index) const;

  const DigitsSplit split_;
  const std::int64_t count_;
  const std::uint64_t seed_;
  const at::Tensor images_;  // [N, 1, 28, 28] uint8; an image is written once, then read
  const at::Tensor labels_;  // [N] int64
  const TensorDataset digits_;
  mutable std::mutex mutex_;
  mutable std::vector<bool> drawn_;  // [N]; guarded by mutex_
};

}  // namespace troupe
