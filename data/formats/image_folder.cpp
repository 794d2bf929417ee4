#include "troupe/data/formats/image_folder.h"

#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/image_file.h"
#include "troupe/data/tensor_memory.h"

namespace troupe {
namespace {

constexpr std::int64_t kLargestSide = 8192;

bool is_picture(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

/// The names in a folder that are not hidden and of which `wanted` is true, in order.
template <class Wanted>
std::vector<std::string> names_in(const std::filesystem::path& dir, const Wanted& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(dir, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() != '.' && wanted(*entry)) names.push_back(std::move(name));
  }
  if (error) {
    throw DataError(text("'", dir.string(), "' cannot be read as a folder: ", error.message(), "."),
                    "give a folder that has a folder of pictures for each class.");
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// [C, height, width] float32 of bytes.
at::Tensor fitted(const Image& image, std::int64_t height, std::int64_t width) {
  const at::Tensor bytes = at::from_blob(const_cast<std::uint8_t*>(image.pixels.data()),
                                         {1, image.height, image.width, image.channels}, at::kByte);
  at::Tensor picture = bytes.permute({0, 3, 1, 2}).to(at::kFloat).contiguous();
  const double factor = std::max(static_cast<double>(height) / static_cast<double>(image.height),
                                 static_cast<double>(width) / static_cast<double>(image.width));
  const auto scaled = [&](std::int64_t side, std::int64_t least) {
    return std::max<std::int64_t>(least, std::llround(static_cast<double>(side) * factor));
  };
  const std::int64_t high = scaled(image.height, height);
  const std::int64_t wide = scaled(image.width, width);
  if (high > kMostPixels / wide) {
    throw DataError(text("a picture of ", image.width, " x ", image.height,
                         " pixels would become one of ", wide, " x ", high, "."),
                    "take out pictures that are a line of pixels.");
  }
  if (high != image.height || wide != image.width) {
    picture = at::_upsample_bilinear2d_aa(picture, {high, wide}, /*align_corners=*/false);
  }
  return picture[0].narrow(1, (high - height) / 2, height).narrow(2, (wide - width) / 2, width);
}

}  // namespace

ImageFolder::ImageFolder(const std::filesystem::path& dir, ImageFolderOptions options)
    : options_(std::move(options)) {
  const auto fits = [](std::int64_t side) { return side >= 1 && side <= kLargestSide; };
  if (!fits(options_.height) || !fits(options_.width) ||
      (options_.channels != 1 && options_.channels != 3)) {
    throw ConfigError(text("ImageFolder is to make pictures of ", options_.channels, " x ",
                           options_.height, " x ", options_.width, "."),
                      text("ask for 1 or 3 channels and sides from 1 to ", kLargestSide, "."));
  }
  const auto found = names_in(dir, [](const auto& entry) { return entry.is_directory(); });
  if (found.empty()) {
    throw DataError(text("'", dir.string(), "' has no folders."),
                    "give a folder that has a folder of pictures for each class.");
  }
  if (options_.classes.empty()) options_.classes = found;
  for (const std::string& name : found) {
    const auto place = std::find(options_.classes.begin(), options_.classes.end(), name);
    if (place == options_.classes.end()) {
      throw DataError(text("'", dir.string(), "' has a folder '", name, "', which is no class of ",
                           options_.classes.size(), "."),
                      "give every split the same classes.");
    }
    const std::filesystem::path folder = dir / name;
    const auto names = names_in(folder, [](const auto& entry) { return is_picture(entry.path()); });
    if (names.empty()) {
      throw DataError(text("'", folder.string(), "' has no pictures."),
                      "put .jpg, .jpeg or .png files there, or remove the folder.");
    }
    const std::int64_t label = place - options_.classes.begin();
    for (const std::string& picture : names) files_.emplace_back(folder / picture, label);
  }
  std::stable_sort(files_.begin(), files_.end(),
                   [](const auto& a, const auto& b) { return a.second < b.second; });
}

void ImageFolder::get_into(const at::Tensor& indices, std::vector<at::Tensor>& fields) const {
  const std::int64_t count = indices.size(0);
  fields.resize(2);
  at::Tensor& pictures = fields[0];
  at::Tensor& labels = fields[1];
  detail::make_room(pictures, {count, options_.channels, options_.height, options_.width},
                    at::kFloat);
  detail::make_room(labels, {count}, at::kLong);
  const auto* const wanted = indices.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [path, label] = files_.at(static_cast<std::size_t>(wanted[i]));
    const Image image = read_image(path, options_.channels);
    // One picture after the other, so that it is in the cache still.
    pictures[i]
        .copy_(fitted(image, options_.height, options_.width))
        .mul_(options_.scale.factor)
        .sub_(options_.scale.shift);
    labels.data_ptr<std::int64_t>()[i] = label;
  }
}

}  // namespace troupe
