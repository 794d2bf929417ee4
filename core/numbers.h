// Numbers from text and back, independent of the locale: all of the text or nothing.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace troupe {

/// A whole decimal number; unset for anything else: blanks, signs other than '-', fractions, a
/// value that does not fit.
template <class Integer>
[[nodiscard]] std::optional<Integer> parse_integer(std::string_view characters) {
  Integer value = 0;
  const char* const end = characters.data() + characters.size();
  const auto result = std::from_chars(characters.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

/// A finite decimal number ("0.5", "1e-3"); unset for anything else, NaN and infinity included.
[[nodiscard]] inline std::optional<double> parse_real(std::string_view characters) {
  double value = 0;
  const char* const end = characters.data() + characters.size();
  const auto result = std::from_chars(characters.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The shortest text that reads back as the same number.
[[nodiscard]] inline std::string number_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace troupe
