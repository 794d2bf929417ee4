// Pictures of bytes as data sets: MNIST and other grey pictures in IDX files of its names, and
// CIFAR-10 from its binary files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/core/options/data_options.h"
#include "troupe/data/dataset.h"
#include "troupe/data/formats/cifar.h"

namespace troupe {

/// From bytes to mean 0 and standard deviation 1 over MNIST's training pixels.
/// Source: the mean and deviation used by PyTorch's MNIST example.
inline constexpr ByteScale kMnistScale{1 / (255 * 0.3081), 0.1307 / 0.3081};

/// How pictures in IDX files are read.
struct IdxImageOptions {
  std::int64_t validation_examples = 0;  // the last of the training file; 0: none, null
  /// Labels are 0 to classes - 1. 0: as many as the training file's largest one says.
  std::int64_t classes = 0;
  /// Of the pixels, from 0 to 1: they become (x / 255 - mean) / deviation. Both unset: those of the
  /// pictures that train, exactly, so that every worker has the same.
  std::optional<double> mean;
  std::optional<double> deviation;
};

/// Data sets and what was found out about them.
struct IdxImages {
  Splits splits;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t classes = 0;
  double mean = 0;
  double deviation = 1;
};

/// Training, validation and test pictures of the IDX files in options.data_dir, which have MNIST's
/// names and types: train-images-idx3-ubyte [N, height, width], train-labels-idx1-ubyte [N], and
/// t10k-... for the test. EMNIST, Fashion-MNIST, notMNIST and others have this form. Of those that
/// do not validate, options.train_examples N > 0 keeps the first N for training.
/// Shapes: a batch has two fields, pictures [B, 1, height, width] float32 and labels [B] int64. In
/// memory a pixel takes a byte.
/// Throws: DataError if a file is missing, malformed, empty or of pictures above 4096 x 4096,
/// images and labels or training and test do not match, a label is too large, or a deviation that
/// is to be measured is 0; ConfigError if there are fewer examples than requested, no directory is
/// given, only one of mean and deviation is, or one that is no number.
[[nodiscard]] IdxImages load_idx_images(const DataOptions& options, const IdxImageOptions& form);

/// The same for ten classes of 28 x 28 pixels and MNIST's mean and deviation.
/// Shapes: a batch has two fields, images [B, 1, 28, 28] float32, (x / 255 - 0.1307) / 0.3081, and
/// labels [B] int64 in 0 .. 9.
/// Throws: as load_idx_images, also DataError for other sizes.
[[nodiscard]] Splits load_mnist(const DataOptions& options, std::int64_t validation_examples);

/// Training, validation and test pictures: data_batch_1.bin to data_batch_5.bin and test_batch.bin
/// of options.data_dir. Validation is the last `validation_examples` of the training pictures (0:
/// none, null), training the rest, of which options.train_examples N > 0 keeps the first N.
/// Shapes: a batch has two fields, pictures [B, 3, 32, 32] float32, (x / 255 - 0.5) / 0.25, and
/// labels [B] int64 in 0 .. 9. In memory a picture takes 3072 bytes.
/// Throws: DataError if a file is missing or malformed; ConfigError if there are fewer examples
/// than requested, or no directory is given.
[[nodiscard]] Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples);

/// Any pictures in that format, as read_cifar returns them, with the same fields.
[[nodiscard]] std::shared_ptr<const Dataset> cifar_dataset(
    std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> pictures_and_labels);

}  // namespace troupe
