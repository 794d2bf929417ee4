// examples/transformer/text_lines.h -- lines of text, as examples of different lengths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace text_lines {

inline constexpr std::size_t kLongest = 128;  // characters of an example

/// The lines of a text file of ASCII, without empty ones; longer ones are cut into pieces of
/// kLongest characters, and each ends with '\n'. Other bytes become '?'.
/// Throws: troupe::DataError if the file cannot be read, or has no line.
[[nodiscard]] std::vector<std::string> read(const std::filesystem::path& file);

/// Such lines of a small language: sums in words, "seven plus eight is fifteen.", and lists of
/// them, of 1 to 6 parts. The same on every machine.
[[nodiscard]] std::vector<std::string> generate(std::int64_t count, std::uint64_t seed);

}  // namespace text_lines
