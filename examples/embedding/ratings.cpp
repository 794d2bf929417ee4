#include "examples/embedding/ratings.h"

#include <algorithm>

#include "troupe/data/split_mix.h"

namespace ratings {
namespace {

using troupe::detail::SplitMix;

constexpr std::int64_t kUnit = 1000;  // a star

std::int64_t below(SplitMix& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

/// Mean 0, standard deviation `deviation`: twelve uniform numbers of one bound, whose sum has the
/// deviation of that bound.
std::int64_t normal(SplitMix& random, std::int64_t deviation) {
  constexpr std::int64_t kBound = 1 << 16;
  std::int64_t sum = -6 * kBound;
  for (int i = 0; i < 12; ++i) sum += below(random, kBound);
  return sum * deviation / kBound;
}

enum class Kind : std::uint64_t { user = 1, item = 2, rating = 3 };

/// The random numbers of one user, item or rating: nothing is kept of the others.
SplitMix random_of(const World& world, Kind kind, std::int64_t number) {
  SplitMix by_kind(world.seed * 4 + static_cast<std::uint64_t>(kind));
  return SplitMix(by_kind.next() ^ (static_cast<std::uint64_t>(number) * 0xD1342543DE82EF95u));
}

/// A user's or an item's part in all its ratings.
struct Taste {
  std::int64_t bias = 0;
  std::int64_t numbers[kHiddenNumbers] = {};

  Taste(const World& world, Kind kind, std::int64_t number) {
    SplitMix random = random_of(world, kind, number);
    bias = normal(random, 300);
    for (std::int64_t& each : numbers) each = normal(random, 600);
  }
};

/// The smallest of three: half of all ratings are of the first fifth of the items.
std::int64_t popular_item(const World& world, SplitMix& random) {
  std::int64_t item = world.items;
  for (int i = 0; i < 3; ++i) item = std::min(item, below(random, world.items));
  return item;
}

Rating draw(const World& world, std::int64_t number) {
  SplitMix random = random_of(world, Kind::rating, number);
  Rating rating;
  rating.user = below(random, world.users);
  rating.item = popular_item(world, random);
  const Taste user(world, Kind::user, rating.user);
  const Taste item(world, Kind::item, rating.item);
  std::int64_t stars = 3500 + user.bias + item.bias;
  for (int k = 0; k < kHiddenNumbers; ++k) stars += user.numbers[k] * item.numbers[k] / kUnit;
  stars += normal(random, static_cast<std::int64_t>(kNoise * kUnit));
  rating.stars = static_cast<double>(stars) / kUnit;
  return rating;
}

}  // namespace

std::vector<Rating> generate(const World& world, std::int64_t first, std::int64_t count) {
  std::vector<Rating> ratings;
  ratings.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) ratings.push_back(draw(world, first + i));
  return ratings;
}

}  // namespace ratings
