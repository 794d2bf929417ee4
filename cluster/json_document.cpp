#include "cluster/json_document.h"

#include <fstream>

#include "core/error.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace troupe {

nlohmann::json parse_json(const std::string& document, const std::string& name) {
  if (document.size() > kMaxJsonBytes) {
    throw ConfigError(
        text(name, " has ", document.size(), " bytes; the limit is ", kMaxJsonBytes, "."),
        "remove what does not belong into it.");
  }
  try {
    return parse_bounded_json(as_bytes(Span<const char>(document.data(), document.size())),
                              kMaxJsonDepth);
  } catch (const JsonFault& fault) {
    if (fault.kind == JsonFault::Kind::too_deep) {
      throw ConfigError(text(name, " is nested deeper than ", kMaxJsonDepth, " levels."),
                        "write a flatter document.");
    }
    if (fault.kind == JsonFault::Kind::repeated_key) {
      throw ConfigError(text(name, fault.path, " appears twice."), "keep one of the two.");
    }
    const bool blank = document.find_first_not_of(" \t\r\n") == std::string::npos;
    throw ConfigError(blank ? text(name, " is empty, which is not valid JSON.")
                            : text(name, " is not valid JSON: ", fault.what, "."),
                      blank ? "remove it, or write {}." : "correct it at that place.");
  }
}

nlohmann::json parse_json_file(const std::string& path, const std::string& flag) {
  std::ifstream file(path, std::ios::binary);
  std::string document(kMaxJsonBytes + 1, '\0');
  file.read(document.data(), static_cast<std::streamsize>(document.size()));
  if (!file.is_open() || file.bad() || !file.eof()) {
    const bool too_long = file.is_open() && file.gcount() > 0 && !file.bad();
    throw ConfigError(
        text(flag, " ", path,
             too_long ? text(" has more than ", kMaxJsonBytes, " bytes.") : " cannot be read."),
        too_long ? "give a JSON file of settings." : "check that the file exists and may be read.");
  }
  document.resize(static_cast<std::size_t>(file.gcount()));
  return parse_json(document, path);
}

std::string json_kind(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "an array";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

}  // namespace troupe
