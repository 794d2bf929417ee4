// GradientPlan: where each parameter's gradient lies in one flat tensor, and which ranges of it are
// summed in one go. Free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::detail {

struct GradientPlan {
  /// Values [begin, end) of the flat tensor.
  struct Bucket {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::size_t parameters = 0;
  };
  std::vector<std::int64_t> offsets;   // by parameter
  std::vector<std::size_t> bucket_of;  // by parameter
  std::vector<Bucket> buckets;         // in the order in which they are summed
};

/// How large buckets are, in values.
struct BucketSizes {
  std::int64_t first = 0;  // the first is complete as soon as it has so many
  std::int64_t most = 0;   // of the others, unless one parameter has more
};

/// Everything in one bucket, parameters in their order. `sizes`: values by parameter.
[[nodiscard]] GradientPlan plan_of_one(const std::vector<std::int64_t>& sizes);

/// Parameters in `order`, which names some of them once each, in the order in which backward has
/// their gradients ready; the others come last, the last parameter first, as backward would.
[[nodiscard]] GradientPlan plan_buckets(const std::vector<std::int64_t>& sizes,
                                        const std::vector<std::size_t>& order,
                                        const BucketSizes& limits);

}  // namespace troupe::detail
