#include "launcher/help_options.h"

#include <algorithm>
#include <regex>

#include "core/text.h"

namespace troupe {

std::vector<HelpOption> help_options(const std::string& help) {
  static const std::regex kOption("(--[a-z][a-z-]*)( [A-Z][A-Za-z:,]*)?");
  std::vector<HelpOption> options;
  for (const std::string& line : split(help, '\n')) {
    if (line.rfind("  --", 0) != 0) continue;
    const std::size_t gap = line.find("  ", 2);  // before the explanation
    const std::string head = line.substr(0, gap);
    const std::size_t words = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
    for (std::sregex_iterator it(head.begin(), head.end(), kOption), end; it != end; ++it) {
      const std::string name = (*it)[1];
      const bool known = std::any_of(options.begin(), options.end(),
                                     [&](const HelpOption& each) { return each.name == name; });
      if (!known)
        options.push_back({name, (*it)[2].matched,
                           words == std::string::npos ? std::string() : line.substr(words)});
    }
  }
  return options;
}

}  // namespace troupe
