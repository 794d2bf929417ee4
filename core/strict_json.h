// JSON from files that may be damaged or hostile: bounded, and without a JSON library's silent
// repairs.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/core/span.h"

namespace troupe {

/// What is wrong with a JSON text.
struct JsonFault {
  enum class Kind { syntax, too_deep, repeated_key };
  Kind kind;
  std::string what;  // the parser's words, with the place; or the key
  std::string path;  // of the key: ".cluster.worker"
};

/// Parses `bytes` in objects and arrays at most `max_depth` deep.
/// Throws: JsonFault, also for a key that appears twice in one object: a parser would let the last
/// of the two win.
[[nodiscard]] nlohmann::json parse_bounded_json(Span<const std::byte> bytes, std::size_t max_depth);

/// Parses `bytes`; `shown` names the file in messages.
/// Throws: CheckpointError for a syntax error (with its place), more than 32 levels, text that is
/// not UTF-8 and a key that appears twice in one object.
[[nodiscard]] nlohmann::json parse_strict_json(Span<const std::byte> bytes,
                                               const std::string& shown);

/// `value` in one line, with U+FFFD in place of what is not UTF-8.
template <class Json>
[[nodiscard]] std::string json_line(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

/// `bytes` likewise: readers of UTF-8 refuse a whole text for one that is not, and a path may hold
/// any.
[[nodiscard]] inline std::string to_utf8(const std::string& bytes) {
  return nlohmann::json::parse(json_line(nlohmann::json(bytes))).get<std::string>();
}

/// The library's message without its tag, "[json.exception.out_of_range.403] ".
[[nodiscard]] std::string json_message(const nlohmann::json::exception& error);

/// Whether `document` is an object whose "format" and "version" are these.
[[nodiscard]] bool has_format(const nlohmann::json& document, const char* format, int version);

/// `value` as JSON text, keys sorted.
/// Throws: CheckpointError if reading it back would give another value (NaN, text not UTF-8).
[[nodiscard]] std::string exact_json(const nlohmann::json& value, const std::string& what);

}  // namespace troupe
