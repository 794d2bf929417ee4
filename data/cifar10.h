// CIFAR-10, the real one from its binary files or generated pictures of ten shapes in its place, as
// data sets.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "options/data_options.h"

namespace troupe {

/// Training, validation and test pictures.
/// - options.data_dir names a directory: data_batch_1.bin to data_batch_5.bin and test_batch.bin
///   there. Validation is the last `validation_examples` of the training pictures (0: none, null).
/// - options.data_dir is empty: generated shapes (data/shapes.h), always the same 10,000 training,
///   1,000 validation (validation_examples 0: none, null) and 2,000 test pictures.
/// options.train_examples N > 0 keeps the first N training examples.
/// Shapes: a batch has two fields, pictures [B, 3, 32, 32] float32, (x / 255 - 0.5) / 0.25, and
/// labels [B] int64 in 0 .. 9. In memory a picture stays 3072 bytes.
/// Throws: DataError if a file is missing or malformed; ConfigError if there are fewer examples
/// than asked for.
[[nodiscard]] Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples);

}  // namespace troupe
