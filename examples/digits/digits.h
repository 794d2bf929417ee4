// Generated handwritten digits: a data set as hard as MNIST that needs no download. Strokes are
// drawn from templates, bent, slanted and rendered at 28x28. Free of LibTorch.
//
// Bit-identical on every machine: integer random numbers, only those floating-point operations that
// IEEE 754 defines to the last bit, no sine of the C library; docs/data.md describes the algorithm.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace troupe {

inline constexpr std::int64_t kDigitSide = 28;                         // pixels
inline constexpr std::int64_t kDigitPixels = kDigitSide * kDigitSide;  // of an image
inline constexpr std::int64_t kDigitsPerWriter = 100;                  // images in one style

/// What the program trains on when it is given no data directory.
inline constexpr std::int64_t kDefaultTrainDigits = 10'000;
inline constexpr std::int64_t kDefaultValidationDigits = 1'000;
inline constexpr std::int64_t kDefaultTestDigits = 2'000;
inline constexpr std::uint64_t kDefaultDigitsSeed = 1;

enum class DigitsSplit { train, test };

/// Images and labels; image i is images[i * kDigitPixels ...], row by row, 0 paper, 255 ink.
struct Digits {
  std::vector<std::uint8_t> images;  // [N * kDigitPixels]
  std::vector<std::uint8_t> labels;  // [N], 0 .. 9
};

/// `count` digits. Image i depends on (split, i, seed) alone, so a smaller count gives a prefix.
/// Images i with the same i / kDigitsPerWriter share a writer: slant, size, pen, favourite shapes;
/// the writers of the two splits differ.
/// Throws: ConfigError if count is negative.
[[nodiscard]] Digits generate_digits(DigitsSplit split, std::int64_t count, std::uint64_t seed);

/// Image `number` (>= 0) of generate_digits(split, ...) alone: writes its pixels, returns its
/// label. Shapes: pixels [kDigitPixels].
std::uint8_t generate_digit(DigitsSplit split, std::int64_t number, std::uint64_t seed,
                            std::uint8_t* pixels);

/// Writes the four IDX files with MNIST's names into `dir`, which must be empty or not exist:
/// into a temporary directory beside it, then renamed, so all four are there or none.
/// Throws: ConfigError if `dir` is not empty or a count is negative; EnvironmentError.
void write_digits(const std::filesystem::path& dir, std::int64_t train_count,
                  std::int64_t test_count, std::uint64_t seed);

}  // namespace troupe
