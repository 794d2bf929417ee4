#include "troupe/report/page/report_page.h"

#include <boost/algorithm/string/replace.hpp>
#include <string_view>
#include <utility>

#include "troupe/core/check.h"
#include "troupe/core/sha256.h"
#include "troupe/core/strict_json.h"
#include "troupe/report/page/page_files.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

/// JSON that can stand in a script element: without '<' nothing ends the element, and no comment
/// begins in it. Outside of texts JSON has none.
std::string to_embedded(const ordered_json& value) {
  return boost::replace_all_copy(json_line(value), "<", "\\u003c");
}

ordered_json json_of_line(const RunLine& line) {
  return {{"source", line.source}, {"line", line.line}};
}

/// The page's frame with each "@NAME@" replaced by its part, the parts unread. The data is never
/// markup; if it ever were, its scripts would lack the nonce: nobody can write his own digest into
/// the data.
std::string assemble(const std::string& data) {
  const std::string nonce = sha256_hex(data);
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"@NONCE@", nonce}, {"@NONCE@", nonce}, {"@NONCE@", nonce},         {"@STYLE@", page::kStyle},
      {"@DATA@", data},   {"@NONCE@", nonce}, {"@SCRIPT@", page::kScript}};
  std::string made;
  std::string_view frame = page::kFrame;
  for (const auto& [name, part] : parts) {
    const auto at = frame.find(name);
    TROUPE_CHECK(at != frame.npos);
    made += frame.substr(0, at);
    made += part;
    frame.remove_prefix(at + name.size());
  }
  return made += frame;
}

}  // namespace

std::string report_page(const std::vector<ReportedRun>& runs) {
  ordered_json shown = ordered_json::array();
  for (const ReportedRun& run : runs) {
    ordered_json lines = ordered_json::array();
    for (const RunLine& line : run.lines) lines.push_back(json_of_line(line));
    shown.push_back({{"name", run.name}, {"lines", std::move(lines)}});
  }
  return assemble(to_embedded({{"live", false}, {"runs", std::move(shown)}}));
}

std::string live_page() {
  return assemble(to_embedded({{"live", true}, {"runs", ordered_json::array()}}));
}

std::string to_json(const RunLine& line) { return json_line(json_of_line(line)); }

}  // namespace troupe
