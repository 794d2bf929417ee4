// text: builds a message from its parts, `text("rank ", 3, " of ", 4)`, independent of the locale.
// join, listed and split: lists in one text. shell_word: a word of a command.
#pragma once

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
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

/// "a, b, c": `to_text` of each item. Empty parts count: split() gives them back.
template <class List, class ToText>
[[nodiscard]] std::string join(const List& items, const std::string& between, ToText&& to_text) {
  std::string joined;
  bool is_first = true;
  for (const auto& item : items) {
    if (!std::exchange(is_first, false)) joined += between;
    joined += to_text(item);
  }
  return joined;
}
[[nodiscard]] inline std::string join(const std::vector<std::string>& parts,
                                      const std::string& between = ", ") {
  return join(parts, between, [](const std::string& part) -> const std::string& { return part; });
}

/// "a, b, c": the names of pairs of name and value.
template <class Pairs>
[[nodiscard]] std::string join_keys(const Pairs& pairs) {
  return join(
      pairs, ", ", [](const auto& pair) -> const auto& { return pair.first; });
}

/// "a, b or c", with " or " before the last of them.
[[nodiscard]] inline std::string listed(const std::vector<std::string>& parts,
                                        const std::string& before_last) {
  if (parts.size() < 2) return join(parts);
  return join({parts.begin(), parts.end() - 1}) + before_last + parts.back();
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

/// `word` as a shell reads it back, in quotes where it needs them.
[[nodiscard]] inline std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  return "'" + join(split(word, '\''), "'\\''") + "'";
}

}  // namespace troupe
