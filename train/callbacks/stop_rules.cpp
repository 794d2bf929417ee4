#include "troupe/train/callbacks/stop_rules.h"

#include <cmath>
#include <set>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

Better better_by(const MetricRule& rule, Better own) {
  return rule.better == Better::unknown ? own : rule.better;
}

[[noreturn]] void throw_unknown(const ScalarHistory& history, const std::string& metric) {
  std::set<std::string> names;
  for (const auto& [step, values] : history) {
    for (const auto& [name, value] : values) names.insert(name);
  }
  throw ConfigError(text("no evaluation has a metric \"", metric, "\" to stop by."),
                    names.empty() ? "let the evaluation write summaries."
                                  : text("name one of: ", join({names.begin(), names.end()}), "."));
}

/// Of losses, whose names reports use themselves, the smaller one.
Better direction_of(const StopRule& rule) {
  const auto& [metric, better] = rule.by;
  if (better != Better::unknown) return better;
  if (metric == "loss" || metric == "average_loss") return Better::lower;
  throw ConfigError(text("early stopping by \"", metric, "\" is not told which way is better."),
                    text("give ", metric, ":max or ", metric, ":min."));
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

StopReason stop_reason(const StopRule& rule, std::int64_t step, double value, BestSoFar& best) {
  if (rule.steps.has_value() == rule.value.has_value() || rule.steps.value_or(1) < 1) {
    throw ConfigError(text("early stopping by \"", rule.by.metric, "\" has no limit."),
                      "give a number of steps of at least 1, or a value to be reached.");
  }
  const bool smaller = direction_of(rule) == Better::lower;
  const std::string& metric = rule.by.metric;
  if (rule.value) {
    if (!(smaller ? value <= *rule.value : value >= *rule.value)) return std::nullopt;
    return text(metric, " = ", value, " at step ", step, " has reached ", *rule.value);
  }
  const bool first = best.step < 0;
  const bool better = !std::isnan(value) && (std::isnan(best.value) ||
                                             (smaller ? value < best.value : value > best.value));
  if (first || better) best = {value, step};
  if (step - best.step < *rule.steps) return std::nullopt;
  return text(metric, " has not ", smaller ? "decreased" : "increased", " for ", step - best.step,
              " steps: ",
              std::isnan(best.value) ? text("it has been NaN since step ", best.step)
                                     : text("the best was ", best.value, " at step ", best.step));
}

StopReason stop_reason(const StopRule& rule, const ScalarHistory& history, std::int64_t min_steps) {
  BestSoFar best;
  bool known = history.empty();
  for (const auto& [step, values] : history) {
    const auto found = values.find(rule.by.metric);
    if (found == values.end()) continue;
    known = true;
    if (step < min_steps) continue;
    if (const StopReason reason = stop_reason(rule, step, found->second, best)) return reason;
  }
  if (!known) throw_unknown(history, rule.by.metric);
  return std::nullopt;
}

}  // namespace troupe
