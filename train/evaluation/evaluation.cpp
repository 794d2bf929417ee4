#include "troupe/train/evaluation/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/train/evaluation/evaluation_job.h"

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
  return join(entries, ", ", [](const auto& entry) { return entry.first + " = " + entry.second; });
}

EvaluationRound evaluate_and_export(EvaluationJob& job, const std::string& checkpoint,
                                    const std::function<bool(std::int64_t step)>& is_final) {
  EvaluationRound round;
  round.checkpoint = checkpoint;
  round.evaluation = job.evaluate(checkpoint);
  if (round.evaluation.metrics.empty()) {
    throw ConfigError(text("the evaluation of '", checkpoint, "' has no metrics."),
                      "let the evaluation report a loss at least.");
  }
  round.is_final = is_final(round.evaluation.global_step);
  round.exports = job.export_models(checkpoint, round.evaluation, round.is_final);
  return round;
}

void export_as_final(EvaluationJob& job, EvaluationRound& round) {
  const auto former =
      std::exchange(round.exports, job.export_models(round.checkpoint, round.evaluation, true));
  for (std::size_t i = 0; i < std::min(former.size(), round.exports.size()); ++i) {
    if (!round.exports[i]) round.exports[i] = former[i];
  }
  round.is_final = true;
}

bool max_steps_reached(const TrainingGoal& goal, std::int64_t step) {
  return goal.max_steps && step != 0 && step >= *goal.max_steps;
}

double tenths(Seconds duration) { return std::round(duration.count() * 10) / 10; }

}  // namespace troupe
