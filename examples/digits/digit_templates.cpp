#include "examples/digits/digit_templates.h"

#include <array>
#include <cstddef>
#include <sstream>
#include <string>

namespace troupe::detail {
namespace {

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

}  // namespace

const std::vector<Glyph>& digit_templates(int digit) {
  static const std::array<std::vector<Glyph>, 10> templates = parse_all();
  return templates[static_cast<std::size_t>(digit)];
}

}  // namespace troupe::detail
