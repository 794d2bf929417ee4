#include "troupe/core/strict_json.h"

#include <set>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr const char* kFixDamaged =
    "the file is damaged or was not written by Troupe; use another checkpoint.";

}  // namespace

std::string json_message(const nlohmann::json::exception& error) {
  const std::string message = error.what();
  const auto end = message.find("] ");
  return message.substr(end == std::string::npos ? 0 : end + 2);
}

nlohmann::json parse_bounded_json(Span<const std::byte> bytes, std::size_t max_depth) {
  using Event = nlohmann::json::parse_event_t;
  struct Level {
    std::set<std::string> keys;
    std::string key;  // the one whose value is being read
  };
  std::vector<Level> levels;
  const auto watch = [&](int, Event event, nlohmann::json& value) {
    if (event == Event::object_start || event == Event::array_start) {
      if (levels.size() == max_depth) throw JsonFault{JsonFault::Kind::too_deep, "", ""};
      levels.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      levels.pop_back();
    } else if (event == Event::key) {
      const auto key = value.get<std::string>();
      levels.back().key = key;
      if (levels.back().keys.insert(key).second) return true;
      std::string path;
      for (const Level& each : levels) {
        if (!each.key.empty()) path += "." + each.key;
      }
      throw JsonFault{JsonFault::Kind::repeated_key, key, path};
    }
    return true;
  };
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  try {
    return nlohmann::json::parse(begin, begin + bytes.size(), watch);
  } catch (const nlohmann::json::exception& error) {
    throw JsonFault{JsonFault::Kind::syntax, json_message(error), ""};
  }
}

nlohmann::json parse_strict_json(Span<const std::byte> bytes, const std::string& shown) {
  try {
    return parse_bounded_json(bytes, kMaxDepth);
  } catch (const JsonFault& fault) {
    std::string what = text(" is not JSON: ", fault.what, ".");
    if (fault.kind == JsonFault::Kind::too_deep) {
      what = text(" is nested deeper than ", kMaxDepth, " levels.");
    } else if (fault.kind == JsonFault::Kind::repeated_key) {
      what = text(" has the key '", fault.what, "' twice.");
    }
    throw CheckpointError(text("'", shown, "'", what), kFixDamaged);
  }
}

bool has_format(const nlohmann::json& document, const char* format, int version) {
  return document.is_object() && document.value("format", nlohmann::json()) == format &&
         document.value("version", nlohmann::json()) == version;
}

std::string exact_json(const nlohmann::json& value, const std::string& what) {
  std::string written;
  try {
    written = value.dump(1);
    if (nlohmann::json::parse(written) == value) return written;
  } catch (const nlohmann::json::exception&) {  // not UTF-8
  }
  throw CheckpointError(text(what, " would not be the same when read back."),
                        "write finite numbers and UTF-8 text only.");
}

}  // namespace troupe
