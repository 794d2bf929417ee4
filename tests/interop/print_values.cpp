// print_values FILE [CHANNELS]: the shape in one line, then the values' bytes, as read_npy() reads
// them, or with CHANNELS read_image().
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "troupe/data/formats/image_file.h"
#include "troupe/data/formats/npy.h"

int main(int argc, char** argv) try {
  if (argc == 3) {
    const troupe::Image image = troupe::read_image(argv[1], std::atoi(argv[2]));
    std::printf("%d %d %d\n", static_cast<int>(image.height), static_cast<int>(image.width),
                static_cast<int>(image.channels));
    std::fwrite(image.pixels.data(), 1, image.pixels.size(), stdout);
    return 0;
  }
  if (argc != 2) return 2;
  const troupe::NpyArray array = troupe::read_npy(argv[1]);
  for (const std::int64_t dim : array.dims) std::printf("%d ", static_cast<int>(dim));
  std::printf("\n");
  std::fwrite(array.bytes.data(), 1, array.bytes.size(), stdout);
  return 0;
} catch (const std::exception& error) {
  std::fputs(error.what(), stderr);
  return 1;
}
