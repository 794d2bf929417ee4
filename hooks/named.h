// Lookup by name in a short list, with an error that lists the existing names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe::detail {

/// The value called `name` in `list` (pairs of name and value).
/// Throws: ConfigError "<what> "name" does not exist", listing the names that do.
template <class List>
auto& find_named(List& list, const std::string& name, const char* what, const char* hook) {
  for (auto& entry : list) {
    if (entry.first == name) return entry.second;
  }
  const std::string names = join_keys(list);
  throw ConfigError(std::string("there is no ") + what + " named \"" + name + "\"; there " +
                        (names.empty() ? "are none." : "is: " + names + "."),
                    std::string("use one of these names, or add it in ") + hook + ".");
}

/// Throws: ConfigError if `name` is empty or taken.
template <class List>
void check_new_name(const List& list, const std::string& name, const char* what, const char* hook) {
  if (name.empty()) {
    throw ConfigError(std::string("a ") + what + " has no name.",
                      std::string("name it in ") + hook + ".");
  }
  for (const auto& entry : list) {
    if (entry.first == name) {
      throw ConfigError(std::string("two ") + what + "s are named \"" + name + "\".",
                        std::string("give each its own name in ") + hook + ".");
    }
  }
}

}  // namespace troupe::detail
