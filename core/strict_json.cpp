#include "core/strict_json.h"

#include <set>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr const char* kFixDamaged =
    "the file is damaged or was not written by Troupe; use another checkpoint.";

/// Watches the parser: it would let the last of two equal keys win.
class Watcher {
 public:
  explicit Watcher(const std::string& shown) : shown_(shown) {}

  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (levels_.size() == kMaxDepth) {
        throw CheckpointError(text("'", shown_, "' is nested deeper than ", kMaxDepth, " levels."),
                              kFixDamaged);
      }
      levels_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      levels_.pop_back();
    } else if (event == Event::key) {
      const auto key = value.get<std::string>();
      if (!levels_.back().insert(key).second) {
        throw CheckpointError(text("'", shown_, "' has the key '", key, "' twice."), kFixDamaged);
      }
    }
    return true;
  }

 private:
  const std::string& shown_;
  std::vector<std::set<std::string>> levels_;
};

/// "[json.exception.parse_error.101] parse error at line 1, ..." from "parse error" on.
std::string without_tag(const std::string& message) {
  const auto end = message.find("] ");
  return message.substr(end == std::string::npos ? 0 : end + 2);
}

}  // namespace

nlohmann::json parse_strict_json(Span<const std::byte> bytes, const std::string& shown) {
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  try {
    return nlohmann::json::parse(begin, begin + bytes.size(), Watcher(shown));
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(text("'", shown, "' is not JSON: ", without_tag(error.what()), "."),
                          kFixDamaged);
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
