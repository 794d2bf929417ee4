// ImageFolder: a folder of pictures, a folder in it for each class, as a data set that reads a
// picture when it is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "troupe/data/dataset.h"

namespace troupe {

struct ImageFolderOptions {
  std::int64_t height = 224;
  std::int64_t width = 224;
  int channels = 3;              // 1: grey
  ByteScale scale{1 / 255., 0};  // of bytes: x times factor minus shift
  /// Names of the folders, in the order of their labels. Empty: all there are, in the order of
  /// their bytes. For validation give those of the training data.
  std::vector<std::string> classes;
};

/// `dir`/CLASS/PICTURE, with pictures that end in .jpg, .jpeg or .png; other files and hidden ones
/// are ignored, and so are folders below. Examples are ordered by class, then by the bytes of their
/// names: the same on every machine. Validation has a folder of its own: the last examples are all
/// of one class.
class ImageFolder final : public detail::DrawnDataset {
 public:
  /// Lists the folder, and opens no picture.
  /// Throws: DataError if a folder cannot be read, there is no class or a class without pictures,
  /// or a folder is none of options.classes; ConfigError for sizes below 1 or above 8192 and other
  /// channels.
  explicit ImageFolder(const std::filesystem::path& dir, ImageFolderOptions options = {});

  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(files_.size());
  }
  /// Shapes: pictures [B, channels, height, width] float32, labels [B] int64. Each picture is
  /// scaled, bilinear and without aliasing, until it covers height and width, and the rest cut off
  /// on both sides alike.
  /// Throws: DataError as read_image, naming the file.
  void get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const override;

  /// By label.
  [[nodiscard]] std::vector<std::string> classes() const override { return options_.classes; }

 private:
  ImageFolderOptions options_;
  std::vector<std::pair<std::filesystem::path, std::int64_t>> files_;  // with labels
};

}  // namespace troupe
