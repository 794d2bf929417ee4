#include "data/mnist.h"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/digits.h"
#include "data/generated_digits.h"
#include "data/idx.h"

namespace troupe {
namespace {

// Mean and standard deviation of MNIST's training pixels, in [0, 1].
// Source: the values that PyTorch's MNIST example normalises with.
constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;
constexpr int kClasses = 10;

// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
template <class T>
at::Tensor adopt_bytes(std::vector<T> values, at::IntArrayRef shape) {
  static_assert(sizeof(T) == 1);
  auto* const owner = new std::vector<T>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, at::kByte);
}

// uint8 [B, 1, 28, 28] to float32, normalised.
constexpr ByteScale kNormalised{1 / (255 * kDeviation), kMean / kDeviation};

template <class T>
std::shared_ptr<const Dataset> make_dataset(std::vector<T> images, const std::vector<T>& labels) {
  const auto count = static_cast<std::int64_t>(labels.size());
  at::Tensor label_tensor = at::empty({count}, at::kLong);
  std::transform(labels.begin(), labels.end(), label_tensor.data_ptr<std::int64_t>(),
                 [](T label) { return static_cast<std::int64_t>(label); });
  at::Tensor image_tensor =
      adopt_bytes(std::move(images), {count, 1, kDigitSide, kDigitSide});  // [N, 1, 28, 28]
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{std::move(image_tensor), std::move(label_tensor)}, kNormalised);
}

std::string describe(const IdxArray& array) {
  std::string result = text("type 0x0", std::hex, static_cast<int>(array.type), " [");
  for (std::size_t i = 0; i < array.dims.size(); ++i) {
    result += text(i > 0 ? ", " : "", array.dims[i]);
  }
  return result + "]";
}

void check_images(const std::filesystem::path& path, const IdxArray& images) {
  const bool fits = images.type == IdxType::uint8 && images.dims.size() == 3 &&
                    images.dims[1] == kDigitSide && images.dims[2] == kDigitSide;
  if (!fits) {
    throw DataError(
        text("'", path.string(), "' holds ", describe(images), ", expected type 0x08 [N, 28, 28]."),
        "put MNIST's image file there, or a data set of the same form.");
  }
}

void check_labels(const std::filesystem::path& path, const IdxArray& labels,
                  const std::filesystem::path& image_path, const IdxArray& images) {
  if (labels.type != IdxType::uint8 || labels.dims.size() != 1) {
    throw DataError(
        text("'", path.string(), "' holds ", describe(labels), ", expected type 0x08 [N]."),
        "put MNIST's label file there, or a data set of the same form.");
  }
  if (labels.dims[0] != images.dims[0]) {
    throw DataError(text("'", path.string(), "' has ", labels.dims[0], " labels, '",
                         image_path.string(), "' has ", images.dims[0], " images."),
                    "put image and label files there that belong together.");
  }
  const auto bad = std::find_if(labels.bytes.begin(), labels.bytes.end(), [](std::byte label) {
    return std::to_integer<int>(label) >= kClasses;
  });
  if (bad != labels.bytes.end()) {
    throw DataError(
        text("'", path.string(), "' has label ", std::to_integer<int>(*bad), " for example ",
             bad - labels.bytes.begin(), ", expected 0 to ", kClasses - 1, "."),
        "put MNIST's label file there, or a data set of the same form.");
  }
}

// The images and labels called `prefix` ("train") in `dir`.
std::shared_ptr<const Dataset> read_split(const std::filesystem::path& dir,
                                          const std::string& prefix) {
  const auto image_path = find_idx(dir, prefix + "-images-idx3-ubyte");
  const auto label_path = find_idx(dir, prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_path);
  check_images(image_path, images);
  const IdxArray labels = read_idx(label_path);
  check_labels(label_path, labels, image_path, images);
  return make_dataset(std::move(images.bytes), labels.bytes);
}

std::shared_ptr<const Dataset> generated(DigitsSplit split, std::int64_t begin,
                                         std::int64_t count) {
  return std::make_shared<GeneratedDigits>(split, begin, count, kDefaultDigitsSeed, kNormalised);
}

void check_train_examples(std::int64_t asked, std::int64_t available) {
  if (asked >= 0 && asked <= available) return;
  throw ConfigError(
      text("--train-examples asks for ", asked, " of ", available, " training examples."),
      text("give 1 to ", available, ", or leave it out to use all."));
}

void check_held_out(std::int64_t asked, std::int64_t held_out, std::int64_t available) {
  if (asked >= 0 && held_out <= available) return;
  throw ConfigError(text("load_mnist() is to hold out ", asked, " of ", available,
                         " training examples for validation."),
                    "hold out at least 0 and at most as many as there are.");
}

Splits generate(const DataOptions& options, std::int64_t validation_examples) {
  check_held_out(validation_examples, 0, kDefaultTrainDigits + kDefaultValidationDigits);
  check_train_examples(options.train_examples, kDefaultTrainDigits);
  Splits splits;
  splits.train =
      generated(DigitsSplit::train, 0,
                options.train_examples > 0 ? options.train_examples : kDefaultTrainDigits);
  if (validation_examples > 0) {
    splits.validation =
        generated(DigitsSplit::train, kDefaultTrainDigits, kDefaultValidationDigits);
  }
  splits.test = generated(DigitsSplit::test, 0, kDefaultTestDigits);
  return splits;
}

}  // namespace

Splits load_mnist(const DataOptions& options, std::int64_t validation_examples) {
  if (options.data_dir.empty()) return generate(options, validation_examples);
  const auto train_file = read_split(options.data_dir, "train");
  check_held_out(validation_examples, validation_examples, train_file->size());
  const std::int64_t available = train_file->size() - validation_examples;
  check_train_examples(options.train_examples, available);
  Splits splits;
  splits.train =
      take(train_file, 0, options.train_examples > 0 ? options.train_examples : available);
  if (validation_examples > 0) splits.validation = take(train_file, available, validation_examples);
  splits.test = read_split(options.data_dir, "t10k");
  return splits;
}

}  // namespace troupe
