#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

#include "examples/digits/digit_drawing.h"

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

/// The strokes of one way to write a digit, three or four of which there are for each: points in
/// the unit square, y downwards. Strokes that meet share the point bit for bit.
using Glyph = std::vector<Stroke>;

// Data table: the glyphs of each digit from 0 on. A glyph is the x and y of its control points, in
// hundredths, and a slash between two strokes.
const std::array<std::vector<std::string>, 10> kGlyphs = {
    {{"55 05  30 12  13 40  17 75  42 95  72 85  87 50  78 18  52 05  40 10",
      "60 05  35 20  27 50  33 82  50 95  68 75  72 40  62 10  45 06",
      "70 10  45 05  20 25  12 60  30 92  60 90  85 60  85 25  62 08"},
     {"50 05  50 50  50 95", "55 05  50 50  46 95", "36 26  54 05 / 54 05  52 50  52 95",
      "34 25  52 05 / 52 05  51 95 / 28 95  74 94"},
     {"20 25  35 07  60 06  78 22  70 45  45 70  18 92 / 18 92  50 90  86 92",
      "18 22  40 05  70 10  76 32  55 62  32 90  17 86  24 74  45 80  66 93  88 86",
      "22 30  30 10  55 04  74 20  62 50  22 93  50 88  85 95"},
     {"20 16  45 05  72 15  70 36  42 47 / 42 47  72 54  80 76  56 95  20 86",
      "20 07  50 07  76 07 / 76 07  45 40 / 45 40  76 52  78 80  50 95  20 87",
      "22 12  50 04  72 20  50 44  36 46  60 48  80 68  62 93  30 93  18 80"},
     {"27 07  20 35  16 56 / 16 56  50 56  86 53 / 70 10  67 50  65 95",
      "64 05  40 34  14 64 / 14 64  50 63  88 62 / 64 05  63 50  62 95",
      "25 08  20 34  30 52  55 48  73 30 / 75 06  72 40  68 95",
      "66 10  40 12  22 36  35 55  62 50 / 70 06  68 50  66 95 / 30 54  85 52"},
     {"78 07  50 07  30 08 / 30 08  26 42 / 26 42  55 36  80 55  74 84  45 95  18 86",
      "74 08  38 10 / 38 10  30 30  34 46  62 54  70 75  50 94  22 90",
      "35 10  28 44  55 40  76 60  66 90  35 95  17 84 / 35 10  60 08  82 04"},
     {"70 06  42 22  23 52  24 80  48 95  74 84  74 60  50 50  26 68",
      "58 05  38 35  28 68  38 92  62 92  72 72  56 60  36 70  30 80",
      "80 12  55 05  28 25  18 60  28 90  58 95  80 78  70 55  42 52  22 68"},
     {"15 10  50 09  82 10 / 82 10  60 45  44 95",
      "18 22  20 08 / 20 08  80 09 / 80 09  62 50  52 95",
      "15 10  50 12  84 08 / 84 08  60 45  42 95 / 34 52  78 50",
      "20 14  45 06  72 10  72 30  60 60  55 95"},
     {"72 16  50 05  28 17  36 38  62 54  77 74  62 93  38 94  22 76  38 54  63 38  74 20  62 08",
      "50 05  30 16  34 38  50 46  67 36  68 15  48 05 / 50 46  24 62  26 86  50 95  76 84  74 60  "
      "48 46",
      "75 10  45 06  30 25  50 46  66 70  52 94  34 82  46 56  68 34  76 12"},
     {"72 20  50 06  26 20  27 42  50 50  72 34  74 16 / 74 16  71 50  62 95",
      "68 12  42 10  28 30  42 48  66 36  70 12  70 50  66 95",
      "74 24  55 05  28 16  25 40  48 48  72 30  74 55  60 88  38 95  24 85"}}};

Glyph parse(const std::string& strokes) {
  Glyph glyph(1);
  std::istringstream words(strokes);
  for (std::string x, y; words >> x;) {
    if (x == "/") {
      glyph.emplace_back();
    } else {
      words >> y;
      glyph.back().push_back({std::stof(x) / 100, std::stof(y) / 100});
    }
  }
  return glyph;
}

std::array<std::vector<Glyph>, 10> parse_all() {
  std::array<std::vector<Glyph>, 10> templates;
  for (std::size_t digit = 0; digit < templates.size(); ++digit) {
    for (const std::string& strokes : kGlyphs[digit]) templates[digit].push_back(parse(strokes));
  }
  return templates;
}

/// The ways to write `digit` (0 .. 9), never empty.
const std::vector<Glyph>& digit_templates(int digit) {
  static const std::array<std::vector<Glyph>, 10> templates = parse_all();
  return templates[static_cast<std::size_t>(digit)];
}

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
