#include "train/callbacks/early_stopping.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace troupe {
namespace {

using Better = bool (*)(double value, double than);

bool smaller(double value, double than) { return value < than; }
bool larger(double value, double than) { return value > than; }

[[noreturn]] void throw_unknown(const ScalarHistory& history, const std::string& metric) {
  std::set<std::string> names;
  for (const auto& [step, values] : history) {
    for (const auto& [name, value] : values) names.insert(name);
  }
  std::string list;
  for (const std::string& name : names) list += text(list.empty() ? "" : ", ", name);
  throw ConfigError(
      text("no evaluation has a metric \"", metric, "\" to stop by."),
      names.empty() ? "let the evaluation write summaries." : text("name one of: ", list, "."));
}

/// The metric by step, from `min_steps` on.
std::vector<std::pair<std::int64_t, double>> values_of(const ScalarHistory& history,
                                                       const std::string& metric,
                                                       std::int64_t min_steps) {
  std::vector<std::pair<std::int64_t, double>> series;
  bool known = history.empty();
  for (const auto& [step, values] : history) {
    const auto found = values.find(metric);
    if (found == values.end()) continue;
    known = true;
    if (step >= min_steps) series.emplace_back(step, found->second);
  }
  if (!known) throw_unknown(history, metric);
  return series;
}

StopReason no_better(const ScalarHistory& history, const std::string& metric,
                     std::int64_t max_steps, std::int64_t min_steps, Better better) {
  const char* verb = better == smaller ? "decreased" : "increased";
  if (max_steps < 1) {
    throw ConfigError(text("training is to stop when \"", metric, "\" has not ", verb, " for ",
                           max_steps, " steps."),
                      "give a number of at least 1.");
  }
  std::optional<double> best;
  std::optional<std::int64_t> best_step;  // until there is a best one, the first looked at
  for (const auto& [step, value] : values_of(history, metric, min_steps)) {
    if (!best_step) best_step = step;
    if (!std::isnan(value) && (!best || better(value, *best))) {
      best = value;
      best_step = step;
    }
    if (step - *best_step < max_steps) continue;
    return text(metric, " has not ", verb, " for ", step - *best_step, " steps: ",
                best ? text("the best was ", *best, " at step ", *best_step)
                     : text("it has been NaN since step ", *best_step));
  }
  return std::nullopt;
}

StopReason beyond(const ScalarHistory& history, const std::string& metric, double threshold,
                  std::int64_t min_steps, Better better) {
  for (const auto& [step, value] : values_of(history, metric, min_steps)) {
    if (!better(value, threshold)) continue;
    return text(metric, " = ", value, " at step ", step, " is ",
                better == smaller ? "below " : "above ", threshold);
  }
  return std::nullopt;
}

class EarlyStopping final : public PeriodicAction {
 public:
  EarlyStopping(StopPredicate predicate, const Every& every, const Clock& clock)
      : predicate_(std::move(predicate)), timer_(every, clock, "early stopping") {}

  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { timer_.reset(); }
  void after_step(const StepReport& report, RunControl& run) override {
    if (!timer_.due(report.step)) return;
    timer_.mark(report.step);
    if (const StopReason reason = predicate_()) run.request_stop(*reason);
  }

 private:
  StopPredicate predicate_;
  StepTimer timer_;
};

}  // namespace

StopReason stop_if_no_decrease(const ScalarHistory& history, const std::string& metric,
                               std::int64_t max_steps, std::int64_t min_steps) {
  return no_better(history, metric, max_steps, min_steps, smaller);
}

StopReason stop_if_no_increase(const ScalarHistory& history, const std::string& metric,
                               std::int64_t max_steps, std::int64_t min_steps) {
  return no_better(history, metric, max_steps, min_steps, larger);
}

StopReason stop_if_lower(const ScalarHistory& history, const std::string& metric, double threshold,
                         std::int64_t min_steps) {
  return beyond(history, metric, threshold, min_steps, smaller);
}

StopReason stop_if_higher(const ScalarHistory& history, const std::string& metric, double threshold,
                          std::int64_t min_steps) {
  return beyond(history, metric, threshold, min_steps, larger);
}

std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate, const Every& every,
                                                    const Clock& clock) {
  if (!predicate) {
    throw ConfigError("early stopping was given no predicate.",
                      "give a function that returns the reason to stop, or nothing.");
  }
  return std::make_shared<EarlyStopping>(std::move(predicate), every, clock);
}

}  // namespace troupe
