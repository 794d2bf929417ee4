#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "examples/digits/digit_drawing.h"
#include "examples/digits/digits.h"

namespace troupe::detail {
namespace {

constexpr int kSide = static_cast<int>(kDigitSide);
constexpr float kCentre = (kSide - 1) / 2.0F;
constexpr float kInkSide = 20;            // pixels of the ink's longer side
constexpr float kRadiusOfImage = 0.233F;  // standard deviation, beside the writer's
constexpr float kInkNoise = 8;            // standard deviation, of 255

using Ink = std::array<float, kDigitPixels>;  // 0 .. 1

struct Pen {
  float radius;                   // pixels
  float swing, frequency, phase;  // how the radius changes along a stroke
};

Pen draw_pen(float radius, SplitMix& random) {
  Pen pen{};
  pen.radius = std::clamp(radius + kRadiusOfImage * random.normal(), 0.55F, 2.3F);
  pen.phase = random.uniform(0, 2 * kPi);
  pen.frequency = random.uniform(2, 6);
  pen.swing = random.uniform(0, 0.25F);
  return pen;
}

// Scales and moves the path so that the ink's bounding box lies centred in the image.
std::vector<Stroke> frame(std::vector<Stroke> path, float pen_radius) {
  Point low = path.front().front();
  Point high = low;
  for (const Stroke& stroke : path) {
    for (const Point& point : stroke) {
      low = {std::min(low.x, point.x), std::min(low.y, point.y)};
      high = {std::max(high.x, point.x), std::max(high.y, point.y)};
    }
  }
  const float longer = std::max({high.x - low.x, high.y - low.y, 0.05F});
  const float scale = (kInkSide - 2 * pen_radius) / longer;
  const Point middle = {(low.x + high.x) / 2, (low.y + high.y) / 2};
  for (Stroke& stroke : path) {
    for (Point& point : stroke) {
      point = {(point.x - middle.x) * scale + kCentre, (point.y - middle.y) * scale + kCentre};
    }
  }
  return path;
}

int clamp_pixel(float position) {
  return static_cast<int>(std::clamp(position, 0.0F, static_cast<float>(kSide - 1)));
}

// Inks every pixel within `radius` of the segment, with an edge of one pixel.
void draw_segment(const Point& a, const Point& b, float radius, Ink& ink) {
  const float reach = radius + 1;
  const int left = clamp_pixel(std::min(a.x, b.x) - reach);
  const int right = clamp_pixel(std::max(a.x, b.x) + reach + 1);
  const int top = clamp_pixel(std::min(a.y, b.y) - reach);
  const int bottom = clamp_pixel(std::max(a.y, b.y) + reach + 1);
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy + 1e-9F;  // never 0
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const float along = (static_cast<float>(x) - a.x) * dx + (static_cast<float>(y) - a.y) * dy;
      const float t = std::clamp(along / length2, 0.0F, 1.0F);
      const float away_x = a.x + t * dx - static_cast<float>(x);
      const float away_y = a.y + t * dy - static_cast<float>(y);
      // The square root is one of the operations that IEEE 754 defines to the last bit.
      const float distance = std::sqrt(away_x * away_x + away_y * away_y);
      float& pixel = ink[static_cast<std::size_t>(y * kSide + x)];
      pixel = std::max(pixel, std::clamp(radius + 0.5F - distance, 0.0F, 1.0F));
    }
  }
}

struct Shift {
  int x, y;
};

// Whole pixels from the centre of mass to the middle.
Shift shift_to_centre(const Ink& ink) {
  float mass = 1e-6F;
  float moment_x = 0;
  float moment_y = 0;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float value = ink[static_cast<std::size_t>(y * kSide + x)];
      mass += value;
      moment_x += value * static_cast<float>(x);
      moment_y += value * static_cast<float>(y);
    }
  }
  return {std::clamp(round_to_int(kCentre - moment_x / mass), -4, 4),
          std::clamp(round_to_int(kCentre - moment_y / mass), -4, 4)};
}

}  // namespace

void draw_image(const std::vector<Stroke>& path, float pen_radius, SplitMix& random,
                std::uint8_t* image) {
  const Pen pen = draw_pen(pen_radius, random);
  Ink ink{};
  for (const Stroke& stroke : frame(path, pen.radius)) {
    const auto count = static_cast<float>(stroke.size());
    for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
      const float wave = sine(pen.phase + pen.frequency * (static_cast<float>(i) / count));
      draw_segment(stroke[i], stroke[i + 1], pen.radius * (1 + pen.swing * wave), ink);
    }
  }
  const Shift shift = shift_to_centre(ink);
  const float gain = random.uniform(0.85F, 1.08F) * 255;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int from_x = x - shift.x;
      const int from_y = y - shift.y;
      const bool inside = from_x >= 0 && from_x < kSide && from_y >= 0 && from_y < kSide;
      float value = inside ? ink[static_cast<std::size_t>(from_y * kSide + from_x)] * gain : 0.0F;
      if (value > 0) value += kInkNoise * random.normal();
      image[y * kSide + x] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
    }
  }
}

}  // namespace troupe::detail
