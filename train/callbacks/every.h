// Every: a period of steps or of time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe {

/// Exactly one of the two.
struct Every {
  std::optional<std::int64_t> steps;
  std::optional<std::chrono::duration<double>> seconds;

  [[nodiscard]] static Every n_steps(std::int64_t n) { return {n, std::nullopt}; }
  [[nodiscard]] static Every n_seconds(double n) {
    return {std::nullopt, std::chrono::duration<double>(n)};
  }
  /// Throws: ConfigError if both or neither are given, or the given one is not above 0. `owner` is
  /// the name in the message ("early stopping").
  void validate(const char* owner) const;
};

}  // namespace troupe
