// Pictures of bytes and their labels, as a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "troupe/data/dataset.h"
#include "troupe/data/tensor_memory.h"

namespace troupe::detail {

/// Fields: pictures, scaled to float32, of `channels` x `height` x `width`; labels int64.
template <class Byte>
[[nodiscard]] std::shared_ptr<const Dataset> byte_images(std::vector<Byte> images,
                                                         std::vector<Byte> labels,
                                                         std::int64_t channels, std::int64_t height,
                                                         std::int64_t width, ByteScale scale) {
  const auto count = static_cast<std::int64_t>(labels.size());
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{adopt(std::move(images), {count, channels, height, width}, at::kByte),
                              adopt(std::move(labels), {count}, at::kByte).to(at::kLong)},
      scale);
}

}  // namespace troupe::detail
