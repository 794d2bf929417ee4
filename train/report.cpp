#include "train/report.h"

#include "core/text.h"

namespace troupe {

std::string to_line(const Report& report) {
  std::string line = text(to_string(report.phase), ": examples = ", report.examples);
  for (const auto& [name, value] : report.losses) line += text(", ", name, " = ", value);
  for (const MetricValue& metric : report.metrics) {
    line += text(", ", metric.name, " = ", metric.value);
  }
  return line;
}

}  // namespace troupe
