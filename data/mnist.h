// MNIST from its IDX files, as data sets.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "options/data_options.h"

namespace troupe {

/// From bytes to mean 0 and standard deviation 1 over MNIST's training pixels.
/// Source: the mean and deviation used by PyTorch's MNIST example.
inline constexpr ByteScale kMnistScale{1 / (255 * 0.3081), 0.1307 / 0.3081};

/// Training, validation and test images of the IDX files in options.data_dir. Validation is the
/// last `validation_examples` of the training file (0: none, null), training the rest, of which
/// options.train_examples N > 0 keeps the first N.
/// Shapes: a batch has two fields, images [B, 1, 28, 28] float32, (x / 255 - 0.1307) / 0.3081, and
/// labels [B] int64 in 0 .. 9. In memory an image takes 784 bytes.
/// Throws: DataError if a file is missing, malformed, or images and labels do not match;
/// ConfigError if there are fewer examples than requested, or no directory is given.
[[nodiscard]] Splits load_mnist(const DataOptions& options, std::int64_t validation_examples);

}  // namespace troupe
