// examples/embedding/ratings.h -- ratings that nobody gave: what the example trains on. How a user
// likes an item is a mean, a bias of each, and the product of a few hidden numbers of each, with
// noise; few items get most of the ratings. Free of LibTorch.
//
// The same to the last bit on every machine: integers only, up to the last division by 1000.
#pragma once

#include <cstdint>
#include <vector>

namespace ratings {

inline constexpr int kHiddenNumbers = 4;  // of every user and every item
inline constexpr double kNoise = 0.25;    // standard deviation, in stars

struct Rating {
  std::int64_t user = 0;
  std::int64_t item = 0;
  double stars = 0;  // about 3.5; not rounded, and not cut off at 1 and 5
};

/// Who there is. Another seed gives others.
struct World {
  std::int64_t users = 1;  // 1 to 2^30
  std::int64_t items = 1;  // the same
  std::uint64_t seed = 1;
};

/// `count` ratings; those from `first` on, of which each depends on world and number alone. A user
/// may rate an item twice.
[[nodiscard]] std::vector<Rating> generate(const World& world, std::int64_t first,
                                           std::int64_t count);

}  // namespace ratings
