#include "troupe/hooks/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

nlohmann::ordered_json number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers below are exact
  if (std::nearbyint(value) == value && std::abs(value) < kExact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Better better_by(const MetricRule& rule, Better own) {
  if (rule.mode == BestMode::min) return Better::lower;
  if (rule.mode == BestMode::max) return Better::higher;
  return own;
}

}  // namespace

Judged judged(const Report& report, const MetricRule& rule, const char* flag) {
  std::vector<std::string> known;
  for (const auto& [name, value] : report.losses) {
    if (name == rule.metric) return {value, better_by(rule, Better::lower)};
    known.push_back(name);
  }
  for (const MetricValue& metric : report.metrics) {
    known.push_back(metric.name);
    if (metric.name != rule.metric) continue;
    const Better better = better_by(rule, metric.better);
    if (better != Better::unknown) return {metric.value, better};
    throw ConfigError(text(flag, " is ", rule.metric,
                           ", a metric that does not say which of two values is better."),
                      "let Metric::better of its class say it, or watch another one or a loss.");
  }
  throw ConfigError(
      text(flag, " is ", rule.metric, ", which the validation has no metric or loss of."),
      text("name one of: ", join(known), "."));
}

std::string to_line(const Report& report) {
  std::string line = text(to_string(report.phase), ": examples = ", report.examples);
  for (const auto& [name, value] : report.losses) line += text(", ", name, " = ", value);
  for (const MetricValue& metric : report.metrics) {
    line += text(", ", metric.name, " = ", metric.value);
  }
  return line;
}

nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : report.losses) json[name] = value;
  for (const auto& [name, value] : report.weights) json[name + "/weight"] = number(value);
  for (const MetricValue& metric : report.metrics) json[metric.name] = metric.value;
  for (const MetricValue& metric : report.metrics) {
    for (const auto& [name, value] : metric.sums) {
      const bool counts_examples = name == "examples";
      if (counts_examples && value == static_cast<double>(report.examples)) continue;
      const bool taken = counts_examples || json.contains(name);
      json[taken ? metric.name + "/" + name : name] = number(value);
    }
  }
  json["examples"] = report.examples;
  return json;
}

}  // namespace troupe
