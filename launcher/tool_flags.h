// Flags of the troupe tool's verbs: few, without environment or configuration file. Programs that
// train have cli/options.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace troupe {

struct ToolFlag {
  enum class Kind { value, toggle };

  std::string name;  // without the dashes
  Kind kind = Kind::value;
};

class ToolFlags {
 public:
  /// Reads `arguments` of `verb`; `shape` is the fix where something does not belong there.
  /// Throws: ConfigError naming the flag and, if one is near, the one that was meant.
  ToolFlags(const std::string& verb, const std::vector<std::string>& arguments,
            const std::vector<ToolFlag>& known, const std::string& shape);

  [[nodiscard]] bool given(const std::string& name) const { return values_.count(name) != 0; }
  [[nodiscard]] std::string word(const std::string& name, const std::string& otherwise) const;
  /// Throws: ConfigError if the value is not a whole number within `range`.
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise,
                                     IntegerRange range) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace troupe
