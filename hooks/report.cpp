#include "troupe/hooks/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

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

}  // namespace

std::string to_line(const Report& report) {
  std::string line = text(to_string(report.phase), ": examples = ", report.examples);
  for (const auto& [name, value] : report.losses) line += text(", ", name, " = ", value);
  for (const MetricValue& metric : report.metrics) {
    line += text(", ", metric.name, " = ", metric.value);
  }
  return line;
}

nlohmann::ordered_json detail::json_of(const LossValues& values) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

nlohmann::ordered_json to_json(const Report& report) {
  nlohmann::ordered_json json = detail::json_of(report.losses);
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
