// examples/resnet/augment.h -- pictures moved by a few pixels and mirrored at random.
// Source: He et al. 2015, section 4.2: four pixels on each side, a crop of the old size, a flip.
#pragma once

#include <torch/types.h>

#include <cstdint>

inline constexpr std::int64_t kMostShift = 4;  // pixels, in each direction

/// Every picture moved by up to kMostShift pixels, with zeros where nothing was, and every second
/// one, about, mirrored left to right. Draws from LibTorch's generator for the pictures' device:
/// the replica's stream, so that a run that is continued draws what an uninterrupted one draws.
/// Shapes: [B, C, H, W] to the same.
inline torch::Tensor shift_and_flip(const torch::Tensor& pictures) {
  const auto height = pictures.size(2);
  const auto width = pictures.size(3);
  const auto whole = pictures.options().dtype(torch::kInt64);
  const auto padded =
      torch::constant_pad_nd(pictures, {kMostShift, kMostShift, kMostShift, kMostShift}, 0);
  const auto draw = [&](std::int64_t below) {
    return torch::randint(below, {pictures.size(0), 1}, whole);  // [B, 1]
  };
  const auto rows = draw(2 * kMostShift + 1) + torch::arange(height, whole);  // [B, H]
  const auto left = draw(2 * kMostShift + 1);
  const auto column = torch::arange(width, whole);  // [W]
  const auto columns =
      left + torch::where(draw(2) == 1, width - 1 - column, column);  // [B, W], mirrored or not
  // One gather: picture b, channel c, and b's own rows and columns.
  const auto b = torch::arange(pictures.size(0), whole).view({-1, 1, 1, 1});
  const auto c = torch::arange(pictures.size(1), whole).view({1, -1, 1, 1});
  return padded.index({b, c, rows.unsqueeze(1).unsqueeze(3), columns.unsqueeze(1).unsqueeze(2)});
}
