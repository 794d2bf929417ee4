// text: builds a message from its parts, `text("rank ", 3, " of ", 4)`, independent of the locale.
// join and split: lists in one text.
#pragma once

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

namespace troupe {

/// The parts, streamed one after the other in the classic locale (a decimal point is a point).
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

/// "a, b, c"
[[nodiscard]] inline std::string join(const std::vector<std::string>& parts,
                                      const std::string& between = ", ") {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : between) + part;
  return joined;
}

/// The parts between the separators: one more than there are separators.
[[nodiscard]] inline std::vector<std::string> split(const std::string& joined, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= joined.size();) {
    const std::size_t end = std::min(joined.find(separator, begin), joined.size());
    parts.push_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace troupe
