#include "troupe/hooks/tensors/recorder.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/formats/image_file.h"
#include "troupe/hooks/tensors/named_tensor.h"

namespace troupe {
namespace detail {
namespace {

/// [C, H, W] as it is; [H, W] with one channel.
at::Tensor with_channels(const std::string& name, const at::Tensor& image) {
  const bool flat = image.defined() && image.dim() == 2;
  const bool fits = image.defined() && !image.is_complex() && image.numel() > 0 &&
                    (flat || (image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3)));
  if (!fits) {
    throw ConfigError(text("the image \"", name, "\" has the shape ", shape_text(image), "."),
                      "give one picture, [H, W], [1, H, W] or [3, H, W], of numbers from 0 to 1 or "
                      "of bytes.");
  }
  return flat ? image.detach().unsqueeze(0) : image.detach();
}

}  // namespace

Recorded::Picture picture_of(const std::string& name, const at::Tensor& image) {
  at::Tensor pixels = with_channels(name, image);
  if (pixels.scalar_type() == at::kBool) pixels = pixels.to(at::kFloat);
  if (pixels.is_floating_point()) {
    pixels = at::nan_to_num(pixels.to(at::kFloat), 0).clamp(0, 1).mul(255).round();
  }
  pixels = pixels.clamp(0, 255).to(at::kCPU, at::kByte).permute({1, 2, 0}).contiguous();
  Image made{pixels.size(0), pixels.size(1), pixels.size(2), {}};
  const auto* const bytes = pixels.data_ptr<std::uint8_t>();
  made.pixels.assign(bytes, bytes + pixels.numel());
  return {to_png(made)};
}

Recorded::Spread spread_of(const std::string& name, const at::Tensor& values) {
  if (!values.defined() || values.is_complex()) {
    throw ConfigError(text("the histogram \"", name, "\" is of no real numbers."),
                      "give a tensor of real numbers, integers or truth values.");
  }
  return {values.detach().to(at::kCPU, at::kFloat).reshape({-1}).clone()};
}

}  // namespace detail

void Recorder::log_image(const std::string& name, const at::Tensor& image) {
  if (wants(name)) keep(name, detail::picture_of(name, image));
}

void Recorder::log_image(const std::string& name, const std::string& png) {
  if (wants(name)) keep(name, detail::Recorded::Picture{png});
}

void Recorder::log_histogram(const std::string& name, const at::Tensor& values) {
  if (wants(name)) keep(name, detail::spread_of(name, values));
}

void Recorder::log_text(const std::string& name, const std::string& text) {
  if (wants(name)) keep(name, text);
}

bool Recorder::wants(const std::string& name) const {
  return is_open_ && listens_ &&
         std::none_of(values_.begin(), values_.end(),
                      [&](const detail::Recorded& each) { return each.name == prefix_ + name; });
}

void Recorder::keep(const std::string& name, decltype(detail::Recorded::value) value) {
  values_.push_back({prefix_ + name, std::move(value)});
}

}  // namespace troupe
