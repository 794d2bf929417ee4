// What the tests of summaries share: files as strings, and times.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "troupe/report/event_file.h"

namespace troupe::testing {

inline constexpr double kNow = 1700000000.5;

/// As much of a PNG file of 2 x 3 pixels as its size is read from.
inline const std::string kTinyPng("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3\10\2\0\0\0crc!",
                                  33);

[[nodiscard]] inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A new file in place of what was there: some file systems wait for the disk when a file is
/// emptied and written again.
inline void replace(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

/// The event files of a directory, in the order in which readers take them.
[[nodiscard]] inline std::vector<std::string> event_names(const std::filesystem::path& directory) {
  return list_event_files(directory.string());
}

}  // namespace troupe::testing
