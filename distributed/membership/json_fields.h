// Reading the JSON of messages, which is hostile: what is missing, twice there, of the wrong type,
// out of range or too deep makes the whole message malformed, and no exception leaves parse_json().
//
// For the .cpp files of messages only: it includes the JSON library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "troupe/core/error.h"
#include "troupe/core/span.h"
#include "troupe/core/strict_json.h"
#include "troupe/distributed/net/frame.h"

namespace troupe::detail {

using Json = nlohmann::json;

inline std::string dump_json(const Json& json) {
  // A task name or reason that is not UTF-8 must not throw on the way out.
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

/// Runs `read` on the parsed object; whatever it finds wrong makes the whole message malformed.
template <class Read>
auto parse_json(Span<const std::byte> bytes, Read read) -> std::optional<decltype(read(Json()))> {
  constexpr std::size_t kMaxDepth = 4;
  try {
    const Json json = parse_bounded_json(bytes, kMaxDepth);
    if (!json.is_object()) return std::nullopt;
    return read(json);
  } catch (const JsonFault&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The value at `key`, of the kind that `is` asks for: nlohmann would also walk over an object as
/// if it were a list, over a list as if it were an object, and over null.
inline const Json& value_in(const Json& json, const char* key, bool (Json::*is)() const noexcept) {
  const Json& value = json.at(key);
  if (!(value.*is)()) throw DataError("a value is of another kind.", "");
  return value;
}
inline const Json& list_in(const Json& json, const char* key) {
  return value_in(json, key, &Json::is_array);
}
inline const Json& object_in(const Json& json, const char* key) {
  return value_in(json, key, &Json::is_object);
}

inline std::string string_in(const Json& json, const char* key) {
  return json.at(key).get_ref<const std::string&>();
}

/// nlohmann converts floats and negative numbers silently; this does not.
inline std::uint64_t number_of(const Json& value, std::uint64_t limit) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > limit) {
    throw DataError("a number is out of range.", "");
  }
  return value.get<std::uint64_t>();
}
inline std::uint64_t number_in(const Json& json, const char* key, std::uint64_t limit) {
  return number_of(json.at(key), limit);
}

inline int rank_in(const Json& json, const char* key) {
  return static_cast<int>(number_in(json, key, kMaxWorldSize - 1));
}

}  // namespace troupe::detail
