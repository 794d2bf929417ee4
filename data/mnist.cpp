#include "data/mnist.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/byte_images.h"
#include "data/hold_out.h"
#include "data/idx.h"

namespace troupe {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kSide = 28;  // pixels

std::string describe(const IdxArray& array) {
  std::string result = text("type 0x0", std::hex, static_cast<int>(array.type), " [");
  for (std::size_t i = 0; i < array.dims.size(); ++i) {
    result += text(i > 0 ? ", " : "", array.dims[i]);
  }
  return result + "]";
}

void check_images(const std::filesystem::path& path, const IdxArray& images,
                  const std::filesystem::path& label_path, const IdxArray& labels) {
  const bool fits = images.type == IdxType::uint8 && images.dims.size() == 3 &&
                    images.dims[1] == kSide && images.dims[2] == kSide;
  if (!fits) {
    throw DataError(
        text("'", path.string(), "' holds ", describe(images), ", expected type 0x08 [N, 28, 28]."),
        "put MNIST's image file there, or a data set of the same form.");
  }
  if (labels.dims[0] != images.dims[0]) {
    throw DataError(text("'", label_path.string(), "' has ", labels.dims[0], " labels, '",
                         path.string(), "' has ", images.dims[0], " images."),
                    "put image and label files there that belong together.");
  }
}

void check_labels(const std::filesystem::path& path, const IdxArray& labels) {
  if (labels.type != IdxType::uint8 || labels.dims.size() != 1) {
    throw DataError(
        text("'", path.string(), "' holds ", describe(labels), ", expected type 0x08 [N]."),
        "put MNIST's label file there, or a data set of the same form.");
  }
}

void check_values(const std::filesystem::path& path, const IdxArray& labels) {
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
  // The labels first, which are small: the images' header must announce as many.
  IdxArray labels =
      read_idx(label_path, [&](const IdxArray& header) { check_labels(label_path, header); });
  IdxArray images = read_idx(image_path, [&](const IdxArray& header) {
    check_images(image_path, header, label_path, labels);
  });
  check_values(label_path, labels);
  return detail::byte_images(std::move(images.bytes), std::move(labels.bytes), 1, kSide,
                             kMnistScale);
}

}  // namespace

Splits load_mnist(const DataOptions& options, std::int64_t validation_examples) {
  if (options.data_dir.empty()) {
    throw ConfigError("load_mnist() is given no directory.", "give --data-dir DIR.");
  }
  Splits splits =
      hold_out(read_split(options.data_dir, "train"), validation_examples, options.train_examples);
  splits.test = read_split(options.data_dir, "t10k");
  return splits;
}

}  // namespace troupe
