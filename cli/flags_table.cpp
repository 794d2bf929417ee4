#include "cli/flags_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/suggestion.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

bool well_formed(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  return plain && name.size() > 1 && name.front() >= 'a' && name.back() != '-';
}

}  // namespace

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string variable_name(const std::string& flag_name) {
  std::string variable = "TROUPE_";
  for (const char c : flag_name) {
    const bool lower = c >= 'a' && c <= 'z';  // not toupper: the Turkish locale has its own I
    variable += c == '-' ? '_' : lower ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::string shown_name(const Flag& flag) {
  const bool on = flag.kind == Flag::Kind::toggle && flag.show() == "true";
  return on ? "no-" + flag.name : flag.name;
}

FlagTable::FlagTable(std::vector<Flag> flags) : flags_(std::move(flags)) {
  std::set<std::string> seen;
  for (const Flag& flag : flags_) {
    std::vector<std::string> names = flag.aliases;
    names.push_back(flag.name);
    if (flag.kind == Flag::Kind::toggle) names.push_back("no-" + flag.name);
    for (const std::string& name : names) {
      if (!well_formed(name)) {
        throw ConfigError(text("the program defines a flag named \"", name, "\"."),
                          "use lower case letters, digits and inner dashes, two at least.");
      }
      if (!seen.insert(name).second) {
        throw ConfigError(text("the program defines the flag --", name, " twice."),
                          "give its own flag another name.");
      }
    }
  }
}

std::optional<FlagMatch> FlagTable::find(const std::string& spelling) const {
  const std::string name = with_dashes(spelling);
  for (const Flag& flag : flags_) {
    const bool alias =
        std::find(flag.aliases.begin(), flag.aliases.end(), name) != flag.aliases.end();
    if (flag.name == name || alias) return FlagMatch{&flag, false};
    if (flag.kind == Flag::Kind::toggle && name == "no-" + flag.name) return FlagMatch{&flag, true};
  }
  return std::nullopt;
}

std::vector<std::string> FlagTable::spellings() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.shown == Flag::Shown::never) continue;
    names.push_back(shown_name(flag));
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
  }
  return names;
}

std::string FlagTable::suggestion(const std::string& spelling) const {
  const std::string name = with_dashes(spelling);
  if (name == "backup-workers") {
    return "it was removed: synchronous training waits for every worker; --staleness-bound S lets "
           "workers be S steps apart; ";
  }
  const std::string nearest = nearest_name(name, spellings());
  return nearest.empty() ? "" : text("did you mean --", nearest, "? ");
}

}  // namespace troupe::detail
