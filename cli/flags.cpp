#include "cli/flags.h"

#include <utility>

#include "cluster/numbers.h"
#include "core/text.h"

namespace troupe {
namespace {

std::string whole_number_fix(IntegerRange range) {
  if (range.least == INT64_MIN && range.most == INT64_MAX) return "give a whole number.";
  if (range.most == INT64_MAX) return text("give a whole number of at least ", range.least, ".");
  if (range.least == INT64_MIN) return text("give a whole number of at most ", range.most, ".");
  return text("give a whole number from ", range.least, " to ", range.most, ".");
}

}  // namespace

Flag flag(std::string name, std::int64_t* variable, std::string help, IntegerRange range) {
  Flag made;
  made.name = std::move(name);
  made.kind = Flag::Kind::integer;
  made.value_name = "N";
  made.help = std::move(help);
  made.assign = [variable, range](const std::string& value) -> std::optional<std::string> {
    const auto number = parse_integer<std::int64_t>(value);
    if (!number || *number < range.least || *number > range.most) return whole_number_fix(range);
    *variable = *number;
    return std::nullopt;
  };
  made.show = [variable] { return text(*variable); };
  return made;
}

Flag flag(std::string name, double* variable, std::string help) {
  Flag made;
  made.name = std::move(name);
  made.kind = Flag::Kind::real;
  made.value_name = "X";
  made.help = std::move(help);
  made.assign = [variable](const std::string& value) -> std::optional<std::string> {
    const auto number = parse_real(value);
    if (!number) return "give a finite decimal number such as 0.5 or 1e-3.";
    *variable = *number;
    return std::nullopt;
  };
  made.show = [variable] { return number_text(*variable); };
  return made;
}

Flag flag(std::string name, std::string* variable, std::string help) {
  Flag made;
  made.name = std::move(name);
  made.kind = Flag::Kind::text;
  made.value_name = "TEXT";
  made.help = std::move(help);
  made.assign = [variable](const std::string& value) -> std::optional<std::string> {
    *variable = value;
    return std::nullopt;
  };
  made.show = [variable] { return *variable; };
  return made;
}

Flag flag(std::string name, bool* variable, std::string help) {
  Flag made;
  made.name = std::move(name);
  made.kind = Flag::Kind::toggle;
  made.help = std::move(help);
  made.assign = [variable](const std::string& value) -> std::optional<std::string> {
    if (value != "true" && value != "false") return "give true or false.";
    *variable = value == "true";
    return std::nullopt;
  };
  made.show = [variable] { return std::string(*variable ? "true" : "false"); };
  return made;
}

}  // namespace troupe
