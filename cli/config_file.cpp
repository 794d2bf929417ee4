#include "cli/config_file.h"

#include <optional>

#include "cluster/json_document.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

const char* wanted(Flag::Kind kind) {
  switch (kind) {
    case Flag::Kind::integer:
    case Flag::Kind::real:
      return "a number, without quotes";
    case Flag::Kind::toggle:
      return "true or false, without quotes";
    case Flag::Kind::text:
      return "a string, in quotes";
  }
  return "a value";
}

bool has_kind(const nlohmann::json& value, Flag::Kind kind) {
  switch (kind) {
    case Flag::Kind::integer:
    case Flag::Kind::real:
      return value.is_number();
    case Flag::Kind::toggle:
      return value.is_boolean();
    case Flag::Kind::text:
      return value.is_string();
  }
  return false;
}

/// The flag that `key` sets. Flags that ask for a text (--help) or name the file itself set
/// nothing.
FlagMatch flag_of(const std::string& key, const std::string& where, const FlagTable& table) {
  const auto match = table.find(key);
  if (!match) {
    throw ConfigError(text(where, " is not a setting."),
                      text(table.suggestion(key), "keys are flag names; see --help-all."));
  }
  if (match->flag->group == "General") {
    throw ConfigError(text(where, " belongs on the command line."), "remove it from the file.");
  }
  return *match;
}

std::string as_text(const nlohmann::json& value, const FlagMatch& match) {
  if (value.is_boolean()) return value.get<bool>() != match.negated ? "true" : "false";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

GivenTexts read_config_file(const std::string& path, const std::string& named_by,
                            const FlagTable& table) {
  const nlohmann::json document = parse_json_file(path, named_by);
  if (!document.is_object()) {
    throw ConfigError(text(path, " holds ", json_kind(document), "."),
                      "write one JSON object, for example {\"epochs\": 5}.");
  }
  GivenTexts given;
  for (const auto& [key, value] : document.items()) {
    const std::string where = text(path, ": ", key);
    const FlagMatch match = flag_of(key, where, table);
    if (!has_kind(value, match.flag->kind)) {
      throw ConfigError(text(where, " is ", json_kind(value), "."),
                        text("write ", wanted(match.flag->kind), "."));
    }
    const bool fresh = given
                           .emplace(match.flag->name, GivenText{as_text(value, match), where,
                                                                GivenText::Source::config_file})
                           .second;
    if (!fresh) {
      throw ConfigError(text(where, " sets --", match.flag->name, " a second time."),
                        "keep one of the two spellings.");
    }
  }
  return given;
}

}  // namespace troupe::detail
