// How the built-in flags are made: one function per kind of value, and what is added to a flag.
// Internal to cli/; a program makes its own by flag().
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/flags.h"
#include "cli/flags_table.h"
#include "cluster/numbers.h"
#include "core/text.h"

namespace troupe::detail {

/// What to do about a value that is refused; unset: it is accepted.
using Fix = std::optional<std::string>;

[[nodiscard]] Flag in_group(Flag flag, const char* group, Flag::Shown shown = Flag::Shown::always);
[[nodiscard]] Flag with_value_name(Flag flag, const char* value_name);
[[nodiscard]] Flag with_alias(Flag flag, const char* alias);

/// A real number for which `accepts` holds; `fix` says which those are.
[[nodiscard]] Flag real(const char* name, double* target, const char* help, bool (*accepts)(double),
                        const char* fix);
/// A limit of time: from 1 ms to 30 days, for no wait is for ever.
[[nodiscard]] Flag limit(const char* name, std::chrono::milliseconds* target, const char* help);
/// A pause that may be 0, of 30 days at most.
[[nodiscard]] Flag pause(const char* name, double* target, const char* help);
enum class Zero { allowed, refused };
/// Seconds that may be unset.
[[nodiscard]] Flag optional_seconds(const char* name, std::optional<double>* target, Zero zero,
                                    const char* help);
/// Text that is not empty.
[[nodiscard]] Flag path(const char* name, std::string* target, const char* help,
                        const char* value_name);
/// Names with commas between them, each once. `allowed`: empty for any; `none`: the word for an
/// empty list, or "".
[[nodiscard]] Flag name_list(const char* name, std::vector<std::string>* target, const char* help,
                             std::vector<std::string> allowed, std::string none);
/// "a, b or c".
[[nodiscard]] std::string alternatives(const std::vector<std::string>& names);

/// A whole number kept in a type of its own; `Target` may be an optional.
template <class Integer, class Target>
[[nodiscard]] Flag whole(const char* name, Target* target, const char* help, Integer least,
                         Integer most) {
  Flag made;
  made.name = name;
  made.kind = Flag::Kind::integer;
  made.value_name = "N";
  made.help = help;
  made.assign = [target, least, most](const std::string& value) -> Fix {
    const auto number = parse_integer<Integer>(value);
    if (!number || *number < least || *number > most) {
      return most == std::numeric_limits<Integer>::max()
                 ? text("give a whole number of at least ", least, ".")
                 : text("give a whole number from ", least, " to ", most, ".");
    }
    *target = *number;
    return std::nullopt;
  };
  made.show = [target]() -> std::string {
    if constexpr (std::is_integral_v<Target>) {
      return text(*target);
    } else {
      return *target ? text(**target) : "";
    }
  };
  return made;
}

/// A whole number of which 0 stands for "all": then the target is unset.
[[nodiscard]] Flag whole_or_all(const char* name, std::optional<std::int64_t>* target,
                                const char* help);

/// The names of an enumeration's values, for choice().
template <class Value>
[[nodiscard]] std::vector<std::pair<const char*, Value>> named(std::vector<Value> values) {
  std::vector<std::pair<const char*, Value>> names;
  for (const Value value : values) names.emplace_back(name_of(value), value);
  return names;
}

/// One of several names, for a value each; `Value` is an enumeration or std::string.
template <class Value>
[[nodiscard]] Flag choice(const char* name, Value* target, const char* help, const char* value_name,
                          std::vector<std::pair<const char*, Value>> values) {
  Flag made;
  made.name = name;
  made.value_name = value_name;
  made.help = help;
  made.assign = [target, values](const std::string& given) -> Fix {
    std::vector<std::string> names;
    for (const auto& [each, value] : values) {
      names.emplace_back(each);
      if (with_dashes(given) != each) continue;
      *target = value;
      return std::nullopt;
    }
    return text("give ", alternatives(names), ".");
  };
  made.show = [target, values = std::move(values)]() -> std::string {
    for (const auto& [each, value] : values) {
      if (value == *target) return each;
    }
    return "";
  };
  return made;
}

}  // namespace troupe::detail
