#include "examples/digits/digit_shape.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace troupe::detail {
namespace {

// How much digits vary, as standard deviations: between writers, and from image to image of one
// writer. Chosen so that 10,000 images teach a linear model about 94 % and a network with one
// convolution about 98 % in three epochs; docs/data.md has the numbers.
constexpr float kSlantOfWriter = 0.12F;
constexpr float kSlantOfImage = 0.093F;
constexpr float kRotationOfWriter = 0.068F;
constexpr float kRotationOfImage = 0.07F;
constexpr float kAspectOfWriter = 0.065F;
constexpr float kAspectOfImage = 0.065F;
constexpr float kMeanSlant = 0.12F;
constexpr float kMeanPenRadius = 1.15F;
constexpr float kPenRadiusOfWriter = 0.30F;

constexpr float kPointJitter = 0.026F;  // of control points
constexpr float kEndStretch = 0.07F;    // of free stroke ends, relative to their last segment
constexpr float kElastic = 0.0318F;     // of each displacement wave
constexpr int kPointsPerSegment = 6;    // of the curve

// Displaces points by a plane wave.
struct Wave {
  float kx, ky, phase, move_x, move_y;
};

// Moves each control point a little; equal points, where strokes meet, move alike.
void jitter(Glyph& glyph, SplitMix& random) {
  const float amount = kPointJitter * random.uniform(0.5F, 1.5F);
  std::vector<std::pair<Point, Point>> moved;  // from, to
  for (Stroke& stroke : glyph) {
    for (Point& point : stroke) {
      const auto known = std::find_if(moved.begin(), moved.end(), [&](const auto& pair) {
        return pair.first.x == point.x && pair.first.y == point.y;
      });
      if (known != moved.end()) {
        point = known->second;
        continue;
      }
      const Point from = point;
      point.x += random.normal() * amount;
      point.y += random.normal() * amount;
      moved.emplace_back(from, point);
    }
  }
}

// A pen that is lifted early, or late.
void stretch_end(Point& end, const Point& neighbour, SplitMix& random) {
  const float amount = random.normal() * kEndStretch;
  end.x += (end.x - neighbour.x) * amount;
  end.y += (end.y - neighbour.y) * amount;
}

// Source: Catmull and Rom 1974, "A class of local interpolating splines".
float catmull_rom(float before, float from, float to, float after, float t) {
  const float t2 = t * t;
  const float t3 = t2 * t;
  return 0.5F * (2 * from + (to - before) * t + (2 * before - 5 * from + 4 * to - after) * t2 +
                 (3 * from - before - 3 * to + after) * t3);
}

Stroke curve_through(const Stroke& control) {
  Stroke curve;
  const std::size_t last = control.size() - 1;
  for (std::size_t i = 0; i < last; ++i) {
    const Point& before = control[i == 0 ? 0 : i - 1];
    const Point& from = control[i];
    const Point& to = control[i + 1];
    const Point& after = control[std::min(last, i + 2)];
    for (int k = 0; k < kPointsPerSegment; ++k) {
      const float t = static_cast<float>(k) / kPointsPerSegment;
      curve.push_back({catmull_rom(before.x, from.x, to.x, after.x, t),
                       catmull_rom(before.y, from.y, to.y, after.y, t)});
    }
  }
  curve.push_back(control.back());
  return curve;
}

std::array<Wave, 4> draw_waves(SplitMix& random) {
  std::array<Wave, 4> waves{};
  for (Wave& wave : waves) {
    wave.kx = random.uniform(-7, 7);
    wave.ky = random.uniform(-7, 7);
    wave.phase = random.uniform(0, 2 * kPi);
    wave.move_x = random.normal() * kElastic;
    wave.move_y = random.normal() * kElastic;
  }
  return waves;
}

// Waves, slant, aspect and rotation, for every point of a path.
void bend(std::vector<Stroke>& path, const WriterStyle& style, SplitMix& random) {
  const std::array<Wave, 4> waves = draw_waves(random);
  const float angle = style.rotation + random.normal() * kRotationOfImage;
  const float slant = style.slant + random.normal() * kSlantOfImage;
  const float aspect = std::clamp(style.aspect + random.normal() * kAspectOfImage, 0.45F, 1.6F);
  const float cos_angle = cosine(angle);
  const float sin_angle = sine(angle);
  for (Stroke& stroke : path) {
    for (Point& point : stroke) {
      const float x0 = point.x - 0.5F;
      const float y0 = point.y - 0.5F;
      float x = x0;
      float y = y0;
      for (const Wave& wave : waves) {
        const float height = sine(wave.kx * x0 + wave.ky * y0 + wave.phase);
        x += wave.move_x * height;
        y += wave.move_y * height;
      }
      x = x * aspect - slant * y;
      point = {cos_angle * x - sin_angle * y, sin_angle * x + cos_angle * y};
    }
  }
}

}  // namespace

WriterStyle draw_style(SplitMix& random) {
  WriterStyle style;
  style.slant = kMeanSlant + random.normal() * kSlantOfWriter;
  style.rotation = random.normal() * kRotationOfWriter;
  style.aspect = 1 + random.normal() * kAspectOfWriter;
  style.pen_radius = kMeanPenRadius + random.normal() * kPenRadiusOfWriter;
  style.favourites = random.next();
  return style;
}

std::vector<Stroke> draw_path(int digit, const WriterStyle& style, SplitMix& random) {
  const std::vector<Glyph>& templates = digit_templates(digit);
  const bool favourite = random.below(2) == 0;  // every second time
  const std::uint64_t choice = favourite ? style.favourites >> (4 * digit) & 15 : random.next();
  Glyph glyph = templates[static_cast<std::size_t>(choice % templates.size())];
  jitter(glyph, random);
  std::vector<Stroke> path;
  for (Stroke& stroke : glyph) {
    stretch_end(stroke.front(), stroke[1], random);
    stretch_end(stroke.back(), stroke[stroke.size() - 2], random);
    path.push_back(curve_through(stroke));
  }
  bend(path, style, random);
  return path;
}

}  // namespace troupe::detail
