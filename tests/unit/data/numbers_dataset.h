// NumbersDataset: example i is the number i, with a hook into get(), for tests of the loader.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "troupe/data/dataset.h"

namespace troupe::testing {

class NumbersDataset final : public Dataset {
 public:
  /// `on_get`, if set, is called on the prefetch thread before each get() returns its result.
  explicit NumbersDataset(std::int64_t size, std::function<void(const at::Tensor&)> on_get = {})
      : size_(size), on_get_(std::move(on_get)) {}

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    if (on_get_) on_get_(indices);
    return {indices.clone()};
  }

 private:
  std::int64_t size_;
  std::function<void(const at::Tensor&)> on_get_;
};

}  // namespace troupe::testing
