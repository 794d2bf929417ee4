#include "troupe/cli/flags_reading.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>
#include <optional>
#include <utility>

#include "troupe/cli/cluster/json_document.h"
#include "troupe/cli/flags_builtin.h"
#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace po = boost::program_options;

namespace troupe::detail {
namespace {

constexpr const char* kSeeHelp = "see --help for the list.";
constexpr std::size_t kShownCharacters = 80;  // of a value in a message

bool looks_like_flag(const std::string& argument) {
  return argument.size() > 2 && argument.compare(0, 2, "--") == 0;
}

/// A text that is safe to show in a message: bounded.
std::string shown(const std::string& value) {
  if (value.size() <= kShownCharacters) return value;
  return value.substr(0, kShownCharacters) + "...";
}

[[noreturn]] void refuse_unknown(const std::string& spelling, const FlagTable& table) {
  const bool of_launcher = table.find("workers").has_value();
  std::string hint = of_launcher ? "" : launcher_flag_hint(with_dashes(spelling));
  if (hint.empty() && !of_launcher) hint = unread_flag_hint(with_dashes(spelling));
  if (!hint.empty())
    throw ConfigError(text("--", spelling, " is not a flag of this program."), hint);
  const std::string suggestion = table.suggestion(spelling);
  const char* const forgotten = of_launcher && suggestion.empty()
                                    ? "a program's own flags follow --, as in troupe run --workers "
                                      "2 -- build/fruit --epochs 5; "
                                    : "";
  throw ConfigError(text("unknown flag --", shown(spelling), "."),
                    text(suggestion, forgotten, kSeeHelp));
}

[[noreturn]] void refuse_without_value(const std::string& spelling) {
  throw ConfigError(text(spelling, " needs a value."),
                    text("write ", spelling, " VALUE, or ", spelling,
                         "=VALUE for one that begins with two dashes."));
}

po::options_description described(const FlagTable& table) {
  po::options_description description;
  for (const Flag& flag : table.flags()) {
    description.add_options()(flag.name.c_str(), po::value<std::string>());
  }
  return description;
}

/// An argument `--flag` or `--flag=value` as Program_options is to see it: underscores are dashes,
/// a toggle has its value. Empty: it is no flag.
std::pair<std::string, std::string> canonical(const std::string& argument, const FlagTable& table) {
  if (!looks_like_flag(argument)) return {};
  const auto equals = argument.find('=');
  const std::string spelling = argument.substr(0, equals);
  const auto match = table.find(spelling.substr(2));
  if (!match) refuse_unknown(spelling.substr(2), table);
  if (equals == std::string::npos) {
    if (match->flag->kind != FlagKind::toggle) return {match->flag->name, ""};
    return {match->flag->name, match->negated ? "false" : "true"};
  }
  if (match->negated) {
    throw ConfigError(text(spelling, " takes no value."),
                      text("write ", spelling, " alone, or --", match->flag->name, "=true."));
  }
  if (equals + 1 == argument.size()) refuse_without_value(spelling);
  return {match->flag->name, argument.substr(equals + 1)};
}

/// The names and values, as Program_options separates them.
std::vector<po::option> separate(const std::vector<std::string>& arguments,
                                 const FlagTable& table) {
  const po::options_description description = described(table);
  return po::command_line_parser(arguments)
      .options(description)
      .style(po::command_line_style::allow_long | po::command_line_style::long_allow_next)
      .extra_parser([&](const std::string& argument) { return canonical(argument, table); })
      .run()
      .options;
}

}  // namespace

CommandLine read_command_line(const std::vector<std::string>& arguments, const FlagTable& table,
                              std::vector<std::string>* words) {
  CommandLine line;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  if (end != arguments.end()) line.extra.assign(end + 1, arguments.end());
  std::map<std::string, std::string> spellings;  // by flag; the last one's
  for (auto argument = arguments.begin(); argument != end; ++argument) {
    const auto [name, value] = canonical(*argument, table);
    if (name.empty()) continue;
    spellings[name] = argument->substr(0, argument->find('='));
    if (value.empty() && (argument + 1 == end || looks_like_flag(*(argument + 1)))) {
      refuse_without_value(*argument);
    }
  }
  for (const po::option& option : separate({arguments.begin(), end}, table)) {
    const std::string& value = option.value.front();
    if (option.position_key < 0) {
      // Of several the last one counts, as in other tools: `prog $DEFAULTS --batch-size 32`.
      line.given[option.string_key] = {value, spellings[option.string_key],
                                       GivenText::Source::command_line};
      continue;
    }
    const bool has_dash = value.size() > 1 && value.front() == '-';
    if (words == nullptr || has_dash) {
      throw ConfigError(text("unexpected argument \"", shown(value), "\"."),
                        "flags begin with two dashes; what the program itself reads follows --.");
    }
    words->push_back(value);
  }
  return line;
}

GivenTexts read_environment(const Environment& environment, const FlagTable& table,
                            std::vector<std::string>& warnings) {
  GivenTexts given;
  const std::string prefix = "TROUPE_";
  for (const auto& [variable, value] : environment) {
    if (variable.compare(0, prefix.size(), prefix) != 0) continue;
    std::string name = variable.substr(prefix.size());
    for (char& c : name)
      c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto match = table.find(name);
    if (!match) {
      const std::string unread = unread_flag_hint(name);
      const std::string near = unread.empty() ? table.suggestion(name) : unread;
      if (!near.empty()) warnings.push_back(text(variable, " sets nothing: ", near));
      continue;
    }
    if (value.empty()) {
      throw ConfigError(text(variable, " is set but empty."), "give it a value or unset it.");
    }
    GivenText made{value, variable, GivenText::Source::environment};
    if (match->flag->kind == FlagKind::toggle) {
      if (value != "1" && value != "0" && value != "true" && value != "false") {
        throw ConfigError(text(variable, " is \"", shown(value), "\"."),
                          text("give 1 or 0 (it stands for --", name, ")."));
      }
      made.value = (value == "1" || value == "true") != match->negated ? "true" : "false";
    }
    const auto [place, fresh] = given.emplace(match->flag->name, std::move(made));
    if (!fresh) throw ConfigError(text(place->second.origin, " is given twice."), "give it once.");
  }
  return given;
}

void assign(const GivenTexts& given, const FlagTable& table) {
  for (const auto& [name, value] : given) {
    const auto match = table.find(name);
    TROUPE_CHECK(match.has_value());
    const std::optional<std::string> fix = match->flag->assign(value.value);
    if (!fix) continue;
    const bool spelled = value.source == GivenText::Source::command_line;
    throw ConfigError(text(value.origin, spelled ? "" : text(" (--", name, ")"), " is \"",
                           shown(value.value), "\"."),
                      *fix);
  }
}

namespace {

/// What to write in place of `value`; null: it is of the kind that the flag takes.
const char* wanted_instead(const nlohmann::json& value, FlagKind kind) {
  switch (kind) {
    case FlagKind::integer:
    case FlagKind::real:
      return value.is_number() ? nullptr : "a number, without quotes";
    case FlagKind::toggle:
      return value.is_boolean() ? nullptr : "true or false, without quotes";
    case FlagKind::text:
      return value.is_string() ? nullptr : "a string, in quotes";
  }
  return nullptr;
}

/// The flag that `key` sets. Flags that ask for a text (--help) or name the file itself set
/// nothing.
FlagMatch flag_of(const std::string& key, const std::string& where, const FlagTable& table) {
  const auto match = table.find(key);
  if (!match) {
    const std::string unread = unread_flag_hint(with_dashes(key));
    throw ConfigError(text(where, " is not a setting."),
                      unread.empty()
                          ? text(table.suggestion(key), "keys are flag names; see --help-all.")
                          : unread);
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
    if (const char* const wanted = wanted_instead(value, match.flag->kind)) {
      throw ConfigError(text(where, " is ", json_kind(value), "."), text("write ", wanted, "."));
    }
    GivenText made{as_text(value, match), where, GivenText::Source::config_file};
    if (!given.emplace(match.flag->name, std::move(made)).second) {
      throw ConfigError(text(where, " sets --", match.flag->name, " a second time."),
                        "keep one of the two spellings.");
    }
  }
  return given;
}

}  // namespace troupe::detail
