#include "launcher/tool_flags.h"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>

#include "cli/suggestion.h"
#include "cluster/numbers.h"
#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

namespace po = boost::program_options;

constexpr const char* kStray = "stray-word";  // Program_options wants a name for what has none

[[noreturn]] void refuse_unknown(const std::string& verb, const std::string& written,
                                 const std::vector<ToolFlag>& known, const std::string& shape) {
  std::vector<std::string> names;
  for (const ToolFlag& flag : known) names.push_back(flag.name);
  const std::size_t begin = written.find_first_not_of('-');
  const std::string near =
      nearest_name(begin == std::string::npos ? "" : written.substr(begin), names);
  throw ConfigError(text("`troupe ", verb, "` has no option ", written, "."),
                    near.empty() ? shape : text("did you mean --", near, "?"));
}

}  // namespace

ToolFlags::ToolFlags(const std::string& verb, const std::vector<std::string>& arguments,
                     const std::vector<ToolFlag>& known, const std::string& shape) {
  po::options_description description;
  description.add_options()(kStray, po::value<std::string>(), "");
  for (const ToolFlag& flag : known) {
    if (flag.kind == ToolFlag::Kind::toggle)
      description.add_options()(flag.name.c_str(), "");
    else
      description.add_options()(flag.name.c_str(), po::value<std::string>(), "");
  }
  po::positional_options_description strays;
  strays.add(kStray, -1);
  try {
    using Style = po::command_line_style::style_t;
    const auto parsed = po::command_line_parser(arguments)
                            .options(description)
                            .style(Style::default_style & ~Style::allow_guessing)
                            .positional(strays)
                            .run();
    for (const auto& option : parsed.options) {
      const std::string value = option.value.empty() ? "" : option.value[0];
      if (option.position_key >= 0)
        throw ConfigError(text("`troupe ", verb, "` does not expect `", value, "` here."), shape);
      if (option.string_key == kStray) refuse_unknown(verb, text("--", kStray), known, shape);
      if (!values_.emplace(option.string_key, value).second)
        throw ConfigError(text("--", option.string_key, " is given twice."), "give it once.");
    }
  } catch (const po::unknown_option& error) {
    refuse_unknown(verb, error.get_option_name(), known, shape);
  } catch (const po::error& error) {
    throw ConfigError(text("`troupe ", verb, "`: ", error.what(), "."), shape);
  }
}

std::string ToolFlags::word(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::int64_t ToolFlags::integer(const std::string& name, std::int64_t otherwise,
                                IntegerRange range) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  const auto value = parse_integer<std::int64_t>(found->second);
  if (!value || *value < range.least || *value > range.most)
    throw ConfigError(text("--", name, " is \"", found->second, "\"."),
                      text("give a whole number from ", range.least, " to ", range.most, "."));
  return *value;
}

}  // namespace troupe
