// CIFAR-10 from its binary files, as data sets.
#pragma once

#include <cstdint>
#include <memory>

#include "troupe/core/options/data_options.h"
#include "troupe/data/dataset.h"
#include "troupe/data/formats/cifar.h"

namespace troupe {

/// Training, validation and test pictures: data_batch_1.bin to data_batch_5.bin and test_batch.bin
/// of options.data_dir. Validation is the last `validation_examples` of the training pictures (0:
/// none, null), training the rest, of which options.train_examples N > 0 keeps the first N.
/// Shapes: a batch has two fields, pictures [B, 3, 32, 32] float32, (x / 255 - 0.5) / 0.25, and
/// labels [B] int64 in 0 .. 9. In memory a picture takes 3072 bytes.
/// Throws: DataError if a file is missing or malformed; ConfigError if there are fewer examples
/// than requested, or no directory is given.
[[nodiscard]] Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples);

/// Any pictures in that format, with the same fields.
[[nodiscard]] std::shared_ptr<const Dataset> cifar_dataset(CifarRecords records);

}  // namespace troupe
