#include "cluster/json_document.h"

#include <fstream>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

using Event = nlohmann::json::parse_event_t;

/// Watches the parser: refuses repeated keys, which it would let win silently, and deep nesting.
class Watcher {
 public:
  explicit Watcher(const std::string& name) : name_(name) {}

  bool operator()(Event event, nlohmann::json& value) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        open();
        break;
      case Event::object_end:
      case Event::array_end:
        levels_.pop_back();
        break;
      case Event::key:
        take_key(value.get<std::string>());
        break;
      case Event::value:
        break;
    }
    return true;
  }

 private:
  struct Level {
    std::set<std::string> keys;
    std::string key;  // the one whose value is being read
  };

  void open() {
    if (levels_.size() == kMaxJsonDepth) {
      throw ConfigError(text(name_, " is nested deeper than ", kMaxJsonDepth, " levels."),
                        "write a flatter document.");
    }
    levels_.emplace_back();
  }

  void take_key(const std::string& key) {
    Level& level = levels_.back();
    level.key = key;
    if (level.keys.insert(key).second) return;
    std::string path = name_;
    for (const Level& each : levels_) {
      if (!each.key.empty()) path += "." + each.key;
    }
    throw ConfigError(text(path, " appears twice."), "keep one of the two.");
  }

  const std::string& name_;
  std::vector<Level> levels_;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 3: ..." from "parse error" on.
std::string without_tag(const std::string& message) {
  const auto end = message.find("] ");
  return message.substr(end == std::string::npos ? 0 : end + 2);
}

}  // namespace

nlohmann::json parse_json(const std::string& document, const std::string& name) {
  if (document.size() > kMaxJsonBytes) {
    throw ConfigError(
        text(name, " has ", document.size(), " bytes; the limit is ", kMaxJsonBytes, "."),
        "remove what does not belong into it.");
  }
  Watcher watcher(name);
  try {
    return nlohmann::json::parse(
        document, [&](int, Event event, nlohmann::json& value) { return watcher(event, value); });
  } catch (const nlohmann::json::exception& error) {
    const bool blank = document.find_first_not_of(" \t\r\n") == std::string::npos;
    throw ConfigError(blank ? text(name, " is empty, which is not valid JSON.")
                            : text(name, " is not valid JSON: ", without_tag(error.what()), "."),
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
