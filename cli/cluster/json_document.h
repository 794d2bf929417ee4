// JSON from users: a document with bounds, and none of the silent repairs that a JSON library
// makes.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe {

inline constexpr std::size_t kMaxJsonBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::chrono::seconds kReadLimit{10};

/// Parses `document`; `name` is what a message calls it ("TF_CONFIG", "train.json").
/// Throws: ConfigError for more than kMaxJsonBytes, deeper nesting than kMaxJsonDepth, a syntax
/// error (with its place) and a key that appears twice in one object (with its path).
[[nodiscard]] nlohmann::json parse_json(const std::string& document, const std::string& name);

/// The document in a file that `flag` named ("--config"), of kMaxJsonBytes at most. It may be a
/// pipe, as a shell's `<(command)` is. Throws: ConfigError where it cannot be read, is too large,
/// or does not end within `limit`; also as parse_json().
[[nodiscard]] nlohmann::json parse_json_file(const std::string& path, const std::string& flag,
                                             std::chrono::milliseconds limit = kReadLimit);

/// What a value is, for messages: "a string", "a number", ...
[[nodiscard]] std::string json_kind(const nlohmann::json& value);

}  // namespace troupe
