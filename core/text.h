// text: builds a message from its parts, `text("rank ", 3, " of ", 4)`, independent of the locale.
#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace troupe {

/// The parts, streamed one after the other in the classic locale (a decimal point is a point).
template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  (out << ... << parts);
  return out.str();
}

}  // namespace troupe
