// Pictures of bytes and their labels, as a data set.
#pragma once

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "troupe/data/dataset.h"

namespace troupe::detail {

/// A tensor over the memory of `values`, which it keeps alive; nothing is copied.
template <class Byte>
[[nodiscard]] at::Tensor adopt_bytes(std::vector<Byte> values, at::IntArrayRef shape) {
  static_assert(sizeof(Byte) == 1);
  auto* const owner = new std::vector<Byte>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) { delete owner; }, at::kByte);
}

/// Fields: pictures, scaled to float32, of `channels` x `height` x `width`; labels int64.
template <class Byte>
[[nodiscard]] std::shared_ptr<const Dataset> byte_images(std::vector<Byte> images,
                                                         std::vector<Byte> labels,
                                                         std::int64_t channels, std::int64_t height,
                                                         std::int64_t width, ByteScale scale) {
  const auto count = static_cast<std::int64_t>(labels.size());
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{adopt_bytes(std::move(images), {count, channels, height, width}),
                              adopt_bytes(std::move(labels), {count}).to(at::kLong)},
      scale);
}

}  // namespace troupe::detail
