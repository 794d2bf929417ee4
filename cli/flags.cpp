#include "troupe/cli/flags.h"

#include <algorithm>

#include "troupe/cli/flags_making.h"
#include "troupe/core/clock.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {

Flag flag(std::string name, std::int64_t* variable, std::string help,
          std::pair<std::int64_t, std::int64_t> range) {
  return detail::whole<std::int64_t>(std::move(name), variable, std::move(help), range.first,
                                     range.second);
}

Flag flag(std::string name, double* variable, std::string help) {
  return detail::real(
      std::move(name), variable, std::move(help), [](double) { return true; },
      "give a finite decimal number such as 0.5 or 1e-3.");
}

Flag flag(std::string name, std::string* variable, std::string help) {
  const auto assign = [variable](const std::string& value) -> detail::Fix {
    *variable = value;
    return std::nullopt;
  };
  return {std::move(name), detail::FlagKind::text,          "TEXT", std::move(help),
          assign,          [variable] { return *variable; }};
}

Flag flag(std::string name, bool* variable, std::string help) {
  const auto assign = [variable](const std::string& value) -> detail::Fix {
    if (value != "true" && value != "false") return "give true or false.";
    *variable = value == "true";
    return std::nullopt;
  };
  return {std::move(name), detail::FlagKind::toggle, "", std::move(help), assign, [variable] {
            return std::string(*variable ? "true" : "false");
          }};
}

Flag flag(std::string name) {
  Flag asked;
  asked.name = std::move(name);
  return asked;
}

}  // namespace troupe

namespace troupe::detail {
namespace {

constexpr double kLongestSeconds = 30.0 * 24 * 3600;

/// What is wrong with a list of names; unset: nothing.
Fix fault_of(const std::vector<std::string>& names, const std::vector<std::string>& allowed,
             const std::string& none) {
  const std::string instead = none.empty() ? "" : text(", or ", none);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool known = allowed.empty()
                           ? !names[i].empty()
                           : std::find(allowed.begin(), allowed.end(), names[i]) != allowed.end();
    if (!known) {
      return allowed.empty() ? text("give names with commas between them", instead, ".")
                             : text("give ", listed(allowed, " or "), ", with commas between them",
                                    instead, ".");
    }
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      return text("name ", names[i], " once.");
    }
  }
  return std::nullopt;
}

}  // namespace

Flag with_value_name(Flag flag, const char* value_name) {
  flag.value_name = value_name;
  return flag;
}

Flag matching(Flag flag) {
  flag.must_match = true;
  return flag;
}

Flag limit(const char* name, std::chrono::milliseconds* target, const char* help) {
  const auto assign = [target](const std::string& value) -> Fix {
    const auto number = parse_real(value);
    if (!number || *number < 0.001 || *number > kLongestSeconds) {
      return "give seconds, from 0.001 to 2592000 (30 days).";
    }
    *target = std::chrono::round<std::chrono::milliseconds>(Seconds(*number));
    return std::nullopt;
  };
  return {name, FlagKind::real, "SECS",
          help, assign,         [target] { return number_text(Seconds(*target).count()); }};
}

Flag pause(const char* name, double* target, const char* help) {
  return with_value_name(
      real(
          name, target, help, [](double x) { return x >= 0 && x <= kLongestSeconds; },
          "give seconds, from 0 to 2592000 (30 days)."),
      "SECS");
}

Flag path(const char* name, std::string* target, const char* help, const char* value_name) {
  Flag made = with_value_name(flag(name, target, help), value_name);
  made.assign = [target](const std::string& value) -> Fix {
    if (value.empty()) return "give a value, or leave the flag out.";
    if (value == "~" || value.rfind("~/", 0) == 0) {
      return "a shell replaces ~ only where a word begins: write $HOME, or ./~ for that folder.";
    }
    *target = value;
    return std::nullopt;
  };
  return made;
}

Flag name_list(const char* name, std::vector<std::string>* target, const char* help,
               std::vector<std::string> allowed, std::string none) {
  const auto assign = [target, allowed = std::move(allowed),
                       none](const std::string& value) -> Fix {
    std::vector<std::string> names;
    if (none.empty() || value != none) names = split(value, ',');
    if (Fix fault = fault_of(names, allowed, none)) return fault;
    *target = std::move(names);
    return std::nullopt;
  };
  return {name,   FlagKind::text,
          "LIST", help,
          assign, [target, none] { return target->empty() ? none : join(*target, ","); }};
}

Flag whole_or_all(const char* name, std::optional<std::int64_t>* target, const char* help) {
  Flag made = at_least(0, name, target, help);
  made.assign = [target, read = made.assign](const std::string& value) -> Fix {
    if (Fix fix = read(value)) return fix;
    if (*target == 0) target->reset();
    return std::nullopt;
  };
  made.show = [target] { return text(target->value_or(0)); };
  return made;
}

}  // namespace troupe::detail
