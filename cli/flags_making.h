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

#include "troupe/cli/flag_lookup.h"
#include "troupe/cli/flags.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe::detail {

/// What to do about a value that is refused; unset: it is accepted.
using Fix = std::optional<std::string>;

/// Appends the flags of one group to a list, in the order of --help.
class FlagGroup {
 public:
  /// What all of its flags are.
  enum class Of { nothing, must_match, evaluates };
  FlagGroup(std::vector<Flag>& flags, const char* name, Of of = Of::nothing)
      : flags_(flags), name_(name), of_(of) {}

  void add(Flag flag, FlagShown shown = FlagShown::always) {
    flag.group = name_;
    flag.shown = shown;
    flag.must_match |= of_ == Of::must_match;
    flag.evaluates |= of_ == Of::evaluates;
    flags_.push_back(std::move(flag));
  }
  /// In --help-all alone.
  void add_rare(Flag flag) { add(std::move(flag), FlagShown::in_help_all); }
  /// In neither.
  void add_hidden(Flag flag) { add(std::move(flag), FlagShown::never); }

 private:
  std::vector<Flag>& flags_;
  const char* name_;
  const Of of_;
};

/// All workers and servers must be given the same.
[[nodiscard]] Flag matching(Flag flag);
[[nodiscard]] Flag with_value_name(Flag flag, const char* value_name);

/// The number as text; of an optional that is unset, "".
template <class Target>
[[nodiscard]] std::string shown_number(const Target& target) {
  if constexpr (std::is_integral_v<Target>) {
    return text(target);
  } else if constexpr (std::is_floating_point_v<Target>) {
    return number_text(target);
  } else {
    return target ? shown_number(*target) : "";
  }
}

/// A real number for which `accepts` holds; `fix` says which those are. `Target` may be an
/// optional.
template <class Target>
[[nodiscard]] Flag real(std::string name, Target* target, std::string help, bool (*accepts)(double),
                        const char* fix) {
  const auto assign = [target, accepts, fix](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || !accepts(*number)) return fix;
    *target = *number;
    return std::nullopt;
  };
  return {std::move(name), FlagKind::real, "X",
          std::move(help), assign,         [target] { return shown_number(*target); }};
}
/// A limit of time: from 1 ms to 30 days, for no wait is for ever.
[[nodiscard]] Flag limit(const char* name, std::chrono::milliseconds* target, const char* help);
/// A pause that may be 0, of 30 days at most.
[[nodiscard]] Flag pause(const char* name, double* target, const char* help);
/// Text that is not empty.
[[nodiscard]] Flag path(const char* name, std::string* target, const char* help,
                        const char* value_name);
/// Names with commas between them, each once. `allowed`: empty for any; `none`: the word for an
/// empty list, or "".
[[nodiscard]] Flag name_list(const char* name, std::vector<std::string>* target, const char* help,
                             std::vector<std::string> allowed, std::string none);

/// A whole number kept in a type of its own; `Target` may be an optional.
template <class Integer, class Target>
[[nodiscard]] Flag whole(std::string name, Target* target, std::string help, Integer least,
                         Integer most) {
  const auto fix = [least, most] {
    const bool any_below =
        std::is_signed_v<Integer> && least == std::numeric_limits<Integer>::min();
    const bool any_above = most == std::numeric_limits<Integer>::max();
    if (any_below)
      return any_above ? text("give a whole number.")
                       : text("give a whole number of at most ", most, ".");
    return any_above ? text("give a whole number of at least ", least, ".")
                     : text("give a whole number from ", least, " to ", most, ".");
  };
  const auto assign = [target, least, most, fix](const std::string& value) -> Fix {
    const auto number = parse_integer<Integer>(value);
    if (!number || *number < least || *number > most) return fix();
    *target = *number;
    return std::nullopt;
  };
  return {std::move(name), FlagKind::integer, "N", std::move(help), assign, [target] {
            return shown_number(*target);
          }};
}

/// A whole number without an upper limit.
template <class Target>
[[nodiscard]] Flag at_least(std::int64_t least, const char* name, Target* target,
                            const char* help) {
  return whole<std::int64_t>(name, target, help, least, INT64_MAX);
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
  const auto assign = [target, values](const std::string& given) -> Fix {
    std::vector<std::string> names;
    for (const auto& [each, value] : values) {
      names.emplace_back(each);
      if (with_dashes(given) != each) continue;
      *target = value;
      return std::nullopt;
    }
    return text("give ", listed(names, " or "), ".");
  };
  const auto show = [target, values]() -> std::string {
    for (const auto& [each, value] : values) {
      if (value == *target) return each;
    }
    return "";
  };
  return {name, FlagKind::text, value_name, help, assign, show};
}

}  // namespace troupe::detail
