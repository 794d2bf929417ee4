#include "estimator/roles/evaluation.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace troupe {

double Evaluation::at(const std::string& name) const {
  std::string names;
  for (const auto& [known, value] : metrics) {
    if (known == name) return value;
    names += text(names.empty() ? "'" : ", '", known, "'");
  }
  throw ConfigError(text("the evaluation of step ", global_step, " has no '", name, "'; it has ",
                         names.empty() ? "nothing" : names, "."),
                    "use one of the names there are, or add a metric of this name.");
}

std::string to_line(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, std::string>> entries{
      {"global_step", text(evaluation.global_step)}};
  for (const auto& [name, value] : evaluation.metrics) entries.emplace_back(name, text(value));
  std::sort(entries.begin(), entries.end());
  std::string line;
  for (const auto& [name, value] : entries) {
    line += text(line.empty() ? "" : ", ", name, " = ", value);
  }
  return line;
}

}  // namespace troupe
