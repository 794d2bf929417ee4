#include "troupe/core/options/metric_rules.h"

#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

std::string suffix_of(Better better) {
  switch (better) {
    case Better::lower:
      return ":min";
    case Better::higher:
      return ":max";
    case Better::unknown:
      break;
  }
  return "";
}

}  // namespace

std::optional<MetricRule> parse_metric_rule(const std::string& written) {
  MetricRule rule{written};
  for (const Better better : {Better::lower, Better::higher}) {
    const std::string suffix = suffix_of(better);
    if (written.size() < suffix.size()) continue;
    const std::size_t at = written.size() - suffix.size();
    if (written.compare(at, suffix.size(), suffix) == 0) rule = {written.substr(0, at), better};
  }
  if (rule.metric.empty()) return std::nullopt;
  return rule;
}

std::string to_text(const MetricRule& rule) { return rule.metric + suffix_of(rule.better); }

std::optional<StopRule> parse_stop_rule(const std::string& written) {
  const std::size_t at = written.find_last_of(":=");
  if (at == std::string::npos) return std::nullopt;
  const auto by = parse_metric_rule(written.substr(0, at));
  if (!by) return std::nullopt;
  const std::string number = written.substr(at + 1);
  if (written[at] == '=') {
    const auto value = parse_real(number);
    return value ? std::optional(StopRule{*by, std::nullopt, value}) : std::nullopt;
  }
  const auto steps = parse_integer<std::int64_t>(number);
  return steps && *steps > 0 ? std::optional(StopRule{*by, steps}) : std::nullopt;
}

std::string to_text(const StopRule& rule) {
  return rule.steps ? text(to_text(rule.by), ":", *rule.steps)
                    : text(to_text(rule.by), "=", number_text(rule.value.value_or(0)));
}

}  // namespace troupe
