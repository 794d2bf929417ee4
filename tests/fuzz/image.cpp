// Data sets: pictures as JPEG and PNG files.
#include <string>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/image_files.h"
#include "troupe/core/error.h"
#include "troupe/data/formats/image_file.h"

namespace troupe::fuzz::image_target {

std::vector<std::string> seeds() {
  const testing::Pixels colour = {200, 100, 50};
  return {testing::jpeg(9, 7, JCS_RGB, colour), testing::jpeg(9, 7, JCS_RGB, colour, true),
          testing::jpeg(8, 8, JCS_GRAYSCALE, {7}),
          testing::png(2, 1, PNG_FORMAT_RGB, {1, 2, 3, 4, 5, 6}),
          testing::png(1, 2, PNG_FORMAT_RGBA, {1, 2, 3, 4, 5, 6, 7, 8})};
}

bool run(std::string_view input) {
  const MemoryFile there(input);
  bool accepted[2] = {};
  for (const int channels : {1, 3}) {
    Image image;
    accepted[channels / 2] =
        accepts<DataError>([&] { image = read_image(there.path(), channels); });
    if (!accepted[channels / 2]) continue;
    FUZZ_REQUIRE(image.channels == channels && image.height > 0 && image.width > 0);
    FUZZ_REQUIRE(image.height <= kMostPixels / image.width);
    FUZZ_REQUIRE(image.pixels.size() ==
                 static_cast<std::size_t>(image.height * image.width * channels));
  }
  return accepted[0] && accepted[1];
}

const Registration registered({"image", seeds, run});

}  // namespace troupe::fuzz::image_target
