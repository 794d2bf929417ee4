#include "troupe/data/formats/picture_sets.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <tuple>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/idx.h"
#include "troupe/data/tensor_memory.h"

namespace troupe {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kSide = 28;              // pixels
constexpr std::int64_t kLargestPicture = 4096;  // more are no picture, and sums stay exact
constexpr double kMean = 0.1307;                // kMnistScale's
constexpr double kDeviation = 0.3081;
constexpr const char* kFixForm = "put MNIST's files there, or a data set of the same form.";

// uint8 [B, 3, 32, 32] to float32, normalised. One middle and one width for all colours: the first
// layer learns the rest.
constexpr ByteScale kCifarScale{4.0 / 255, 2.0};

/// A file's arrays.
struct Pictures {
  IdxArray images;
  IdxArray labels;
};

std::string shape_text(const IdxArray& array) {
  return text("type 0x0", std::hex, static_cast<int>(array.type), " [",
              join(array.dims, ", ", [](std::int64_t dim) { return text(dim); }), "]");
}

[[noreturn]] void refuse_form(const std::filesystem::path& path, const IdxArray& array,
                              const std::string& expected) {
  throw DataError(text("'", path.string(), "' holds ", shape_text(array), ", expected type 0x08 ",
                       expected, "."),
                  kFixForm);
}

void check_images(const std::filesystem::path& path, const IdxArray& images,
                  const std::filesystem::path& label_path, const IdxArray& labels,
                  const IdxImages& form) {
  const auto fits = [](std::int64_t side, std::int64_t expected) {
    return expected > 0 ? side == expected : side >= 1 && side <= kLargestPicture;
  };
  if (images.type != IdxType::uint8 || images.dims.size() != 3 ||
      !fits(images.dims[1], form.height) || !fits(images.dims[2], form.width)) {
    refuse_form(path, images,
                form.height > 0
                    ? text("[N, ", form.height, ", ", form.width, "]")
                    : text("[N, 1 to ", kLargestPicture, ", 1 to ", kLargestPicture, "]"));
  }
  if (labels.dims[0] != images.dims[0]) {
    throw DataError(text("'", label_path.string(), "' has ", labels.dims[0], " labels, '",
                         path.string(), "' has ", images.dims[0], " images."),
                    "put image and label files there that belong together.");
  }
}

/// One more than the largest label.
std::int64_t classes_in(const IdxArray& labels) {
  const auto largest = std::max_element(labels.bytes.begin(), labels.bytes.end());
  return largest == labels.bytes.end() ? 0 : std::to_integer<std::int64_t>(*largest) + 1;
}

void check_values(const std::filesystem::path& path, const IdxArray& labels, std::int64_t classes) {
  const auto bad = std::find_if(labels.bytes.begin(), labels.bytes.end(), [&](std::byte label) {
    return std::to_integer<std::int64_t>(label) >= classes;
  });
  if (bad != labels.bytes.end()) {
    throw DataError(
        text("'", path.string(), "' has label ", std::to_integer<int>(*bad), " for example ",
             bad - labels.bytes.begin(), ", expected 0 to ", classes - 1, "."),
        kFixForm);
  }
}

/// The images and labels called `prefix` ("train") in `dir`; they settle what is 0 in `form`.
Pictures read_pictures(const std::filesystem::path& dir, const std::string& prefix,
                       IdxImages& form) {
  const auto image_path = find_idx(dir, prefix + "-images-idx3-ubyte");
  const auto label_path = find_idx(dir, prefix + "-labels-idx1-ubyte");
  // The labels first, which are small: the images' header must announce as many.
  Pictures read;
  read.labels = read_idx(label_path, [&](const IdxArray& header) {
    if (header.type == IdxType::uint8 && header.dims.size() == 1) return;
    refuse_form(label_path, header, "[N]");
  });
  read.images = read_idx(image_path, [&](const IdxArray& header) {
    check_images(image_path, header, label_path, read.labels, form);
  });
  form.height = read.images.dims[1];
  form.width = read.images.dims[2];
  if (form.classes == 0) form.classes = classes_in(read.labels);
  check_values(label_path, read.labels, form.classes);
  return read;
}

/// Fields: pictures, scaled to float32, of `channels` x `height` x `width`; labels int64.
template <class Byte>
std::shared_ptr<const Dataset> byte_images(std::vector<Byte> images, std::vector<Byte> labels,
                                           std::int64_t channels, std::int64_t height,
                                           std::int64_t width, ByteScale scale) {
  const auto count = static_cast<std::int64_t>(labels.size());
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{
          detail::adopt(std::move(images), {count, channels, height, width}, at::kByte),
          detail::adopt(std::move(labels), {count}, at::kByte).to(at::kLong)},
      scale);
}

std::shared_ptr<const Dataset> dataset_of(Pictures pictures, const IdxImages& form) {
  const ByteScale scale{1 / (255 * form.deviation), form.mean / form.deviation};
  return byte_images(std::move(pictures.images.bytes), std::move(pictures.labels.bytes), 1,
                     form.height, form.width, scale);
}

/// Mean and deviation of the first `count` bytes, from 0 to 1. Sums are exact.
std::pair<double, double> measured(const std::vector<std::byte>& bytes, std::size_t count) {
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;  // of 2^47 bytes at most
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = std::to_integer<std::uint64_t>(bytes[i]);
    sum += value;
    squares += value * value;
  }
  const double mean = static_cast<double>(sum) / static_cast<double>(count);
  const double variance = static_cast<double>(squares) / static_cast<double>(count) - mean * mean;
  return {mean / 255, std::sqrt(std::max(variance, 0.0)) / 255};
}

void check_options(const DataOptions& options, const IdxImageOptions& form) {
  if (options.data_dir.empty()) {
    throw ConfigError("load_mnist() is given no directory.", "give --data-dir DIR.");
  }
  const bool given = form.mean.has_value();
  const bool sound = given == form.deviation.has_value() &&
                     (!given || (std::isfinite(*form.mean) && std::isfinite(*form.deviation) &&
                                 *form.deviation > 0));
  if (!sound || form.classes < 0 || form.classes > 256) {
    throw ConfigError(text("load_idx_images() is asked for ", form.classes,
                           " classes, or for a mean and a deviation that do not go together."),
                      "give 0 to 256 classes, and a finite mean with a deviation above 0, or "
                      "neither.");
  }
}

/// `result` says what the pictures must be; 0: not known yet.
IdxImages load(const DataOptions& options, const IdxImageOptions& wish, IdxImages result) {
  check_options(options, wish);
  Pictures train = read_pictures(options.data_dir, "train", result);
  if (wish.mean) {
    result.mean = *wish.mean;
    result.deviation = *wish.deviation;
  } else {
    const std::int64_t left = train.labels.dims[0] - wish.validation_examples;
    const std::int64_t used = options.train_examples > 0 ? options.train_examples : left;
    // What cannot be held out is refused below.
    const std::int64_t count = std::clamp<std::int64_t>(used, 0, train.labels.dims[0]);
    const auto pixels = static_cast<std::size_t>(count * result.height * result.width);
    if (pixels > 0) std::tie(result.mean, result.deviation) = measured(train.images.bytes, pixels);
    if (pixels == 0 || result.deviation == 0) {
      throw DataError(text("the ", count, " training pictures in '", options.data_dir,
                           "' have no two different pixels."),
                      "give mean and deviation, or other pictures.");
    }
  }
  result.splits = hold_out(dataset_of(std::move(train), result), wish.validation_examples,
                           options.train_examples);
  result.splits.test = dataset_of(read_pictures(options.data_dir, "t10k", result), result);
  return result;
}

}  // namespace

IdxImages load_idx_images(const DataOptions& options, const IdxImageOptions& form) {
  return load(options, form, {{}, 0, 0, form.classes});
}

Splits load_mnist(const DataOptions& options, std::int64_t validation_examples) {
  const IdxImageOptions form{validation_examples, kClasses, kMean, kDeviation};
  return load(options, form, {{}, kSide, kSide, kClasses}).splits;
}

std::shared_ptr<const Dataset> cifar_dataset(
    std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> pictures_and_labels) {
  return byte_images(std::move(pictures_and_labels.first), std::move(pictures_and_labels.second), 3,
                     kCifarSide, kCifarSide, kCifarScale);
}

Splits load_cifar10(const DataOptions& options, std::int64_t validation_examples) {
  if (options.data_dir.empty()) {
    throw ConfigError("load_cifar10() is given no directory.", "give --data-dir DIR.");
  }
  const auto read = [&](const std::vector<std::string>& names) {
    return cifar_dataset(read_cifar(options.data_dir, names));
  };
  Splits splits = hold_out(read({"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"}),
                           validation_examples, options.train_examples);
  splits.test = read({"test_batch.bin"});
  return splits;
}

}  // namespace troupe
