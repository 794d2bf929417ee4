#include "examples/digits/shapes.h"

#include <algorithm>
#include <array>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/data/split_mix.h"

namespace troupe {
namespace {

using detail::SplitMix;

constexpr int kSide = static_cast<int>(kCifarSide);
using Colour = std::array<int, 3>;  // 0 .. 255

// From `low` to `high`, both included.
int between(SplitMix& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

// Whether the point lies in the shape. x and y are from its centre, its radius is 16 * `size`, all
// in sixteenths of a pixel but `size`.
bool covers(int shape, int x, int y, int size) {
  const int r = 16 * size;
  const int left = std::abs(x);
  const int up = std::abs(y);
  const int furthest = std::max(left, up);
  const int square = x * x + y * y;
  const int hole = r * 5 / 8;
  const int arm = r / 4;
  if (furthest > r) return false;
  switch (shape) {
    case 0:
      return square <= r * r;
    case 1:
      return square <= r * r && square >= hole * hole;
    case 2:
      return true;
    case 3:
      return furthest >= hole;
    case 4:
      return 2 * left <= y + r;  // a point above, wide below
    case 5:
      return std::min(left, up) <= arm;
    case 6:
      return std::abs(left - up) <= arm;
    case 7:
      return (y + r) / arm % 2 == 0;
    case 8:
      return (left + arm / 2) / arm % 2 == 0;
    default:
      return ((left + arm / 2) / arm + (up + arm / 2) / arm) % 2 == 0;
  }
}

Colour any_colour(SplitMix& random) {
  return {between(random, 0, 255), between(random, 0, 255), between(random, 0, 255)};
}

int distance(const Colour& a, const Colour& b) {
  int sum = 0;
  for (std::size_t k = 0; k < 3; ++k) sum += std::abs(a[k] - b[k]);
  return sum;
}

// What one picture is drawn with.
struct Scene {
  int shape, size, x, y;  // the centre in pixels
  Colour paper, ink;
  Colour slope;  // of the paper, from the left edge to the right one
  int noise;

  Scene(int of_class, SplitMix& random)
      : shape(of_class),
        size(between(random, 7, 11)),
        x(between(random, 12, 19)),
        y(between(random, 12, 19)),
        paper(any_colour(random)),
        ink(any_colour(random)),
        slope{between(random, -60, 60), between(random, -60, 60), between(random, -60, 60)},
        noise(between(random, 10, 40)) {
    while (distance(paper, ink) < 150) ink = any_colour(random);
  }
};

// Out of 4: how many quarters of the pixel the shape covers.
int covered_quarters(const Scene& scene, int column, int row) {
  int quarters = 0;
  for (const int dy : {4, 12}) {
    for (const int dx : {4, 12}) {
      const int x = 16 * (column - scene.x) + dx - 8;
      const int y = 16 * (row - scene.y) + dy - 8;
      if (covers(scene.shape, x, y, scene.size)) ++quarters;
    }
  }
  return quarters;
}

void paint(const Scene& scene, SplitMix& random, std::uint8_t* image) {
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const int ink = covered_quarters(scene, column, row);
      for (int plane = 0; plane < 3; ++plane) {
        const auto k = static_cast<std::size_t>(plane);
        const int paper = scene.paper[k] + scene.slope[k] * (2 * column - kSide) / (2 * kSide);
        const int colour = (paper * (4 - ink) + scene.ink[k] * ink) / 4;
        const int value = colour + between(random, -scene.noise, scene.noise);
        image[(plane * kSide + row) * kSide + column] =
            static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
}

}  // namespace

std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> generate_shapes(
    std::int64_t count, std::uint64_t seed) {
  if (count < 0) {
    throw ConfigError(text("generate_shapes() was asked for ", count, " pictures."),
                      "ask for at least 0.");
  }
  std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> made;
  auto& [images, labels] = made;
  images.resize(static_cast<std::size_t>(count * kCifarPixels));
  labels.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    SplitMix seeds(seed);
    SplitMix random(seeds.next() ^ (static_cast<std::uint64_t>(i) * 0xD1342543DE82EF95u));
    const auto shape = static_cast<int>(random.below(kCifarClasses));
    labels.push_back(static_cast<std::uint8_t>(shape));
    paint(Scene(shape, random), random, images.data() + i * kCifarPixels);
  }
  return made;
}

}  // namespace troupe
