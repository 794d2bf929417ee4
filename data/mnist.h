// MNIST, the real one from its IDX files or the generated digits in its place, as data sets.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "options/data_options.h"

namespace troupe {

/// Training, validation and test images.
/// - options.data_dir names a directory: its IDX files. Validation is the last
///   `validation_examples` of the training file (0: none, null), training the rest.
/// - options.data_dir is empty: generated digits, always the same 10,000 training, 1,000 validation
///   (validation_examples 0: none, null) and 2,000 test images.
/// options.train_examples N > 0 keeps the first N training examples.
/// Shapes: a batch has two fields, images [B, 1, 28, 28] float32, (x / 255 - 0.1307) / 0.3081, and
/// labels [B] int64 in 0 .. 9. In memory an image stays 784 bytes.
/// Throws: DataError if a file is missing, malformed, or images and labels do not fit together;
/// ConfigError if there are fewer examples than asked for.
[[nodiscard]] Splits load_mnist(const DataOptions& options, std::int64_t validation_examples);

}  // namespace troupe
