#include "troupe/cli/flags.h"

#include <utility>

#include "troupe/cli/flags_making.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {

Flag flag(std::string name, std::int64_t* variable, std::string help, IntegerRange range) {
  return detail::whole<std::int64_t>(std::move(name), variable, std::move(help), range.least,
                                     range.most);
}

Flag flag(std::string name, double* variable, std::string help) {
  const auto assign = [variable](const std::string& value) -> detail::Fix {
    const auto number = parse_real(value);
    if (!number) return "give a finite decimal number such as 0.5 or 1e-3.";
    *variable = *number;
    return std::nullopt;
  };
  return {std::move(name), Flag::Kind::real, "X",
          std::move(help), assign,           [variable] { return number_text(*variable); }};
}

Flag flag(std::string name, std::string* variable, std::string help) {
  const auto assign = [variable](const std::string& value) -> detail::Fix {
    *variable = value;
    return std::nullopt;
  };
  return {std::move(name), Flag::Kind::text, "TEXT",
          std::move(help), assign,           [variable] { return *variable; }};
}

Flag flag(std::string name, bool* variable, std::string help) {
  const auto assign = [variable](const std::string& value) -> detail::Fix {
    if (value != "true" && value != "false") return "give true or false.";
    *variable = value == "true";
    return std::nullopt;
  };
  return {std::move(name), Flag::Kind::toggle, "", std::move(help), assign, [variable] {
            return std::string(*variable ? "true" : "false");
          }};
}

Flag flag(std::string name) {
  Flag asked;
  asked.name = std::move(name);
  return asked;
}

}  // namespace troupe
