// The binary files of CIFAR-10: records of a label and a picture of 32x32 pixels in colour. The
// byte table is in docs/data.md. Free of LibTorch.
//
// A file is not trusted until checked: its size is checked against that of its records before
// memory for them is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarPixels = 3 * kCifarSide * kCifarSide;  // of a picture
inline constexpr std::int64_t kCifarClasses = 10;

/// Reads the files `names` in `dir`, one after the other; each must hold at least one record.
/// Returns the pictures [N * kCifarPixels], each the red plane row by row, then green, then blue,
/// and the labels [N], 0 .. 9. Throws: DataError naming file and record, if a file is missing, not
/// readable, not a regular file, empty, not a whole number of records or larger than 1 GiB, or if a
/// label is above 9.
[[nodiscard]] std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>> read_cifar(
    const std::filesystem::path& dir, const std::vector<std::string>& names);

}  // namespace troupe
