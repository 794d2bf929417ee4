// The data sets of the examples: files where --data-dir names some, generated pictures elsewhere.
#pragma once

#include <cstdint>

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

}  // namespace troupe
