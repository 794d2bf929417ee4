#include "troupe/train/callbacks/early_stopping.h"

#include <cmath>
#include <set>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

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
BestMode mode_of(const StopRule& rule) {
  const auto& [metric, mode] = rule.by;
  if (mode != BestMode::automatic) return mode;
  if (metric == "loss" || metric == "average_loss") return BestMode::min;
  throw ConfigError(text("early stopping by \"", metric, "\" is not told which way is better."),
                    text("give ", metric, ":max or ", metric, ":min."));
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

StopReason stop_reason(const StopRule& rule, std::int64_t step, double value, BestSoFar& best) {
  if (rule.steps.has_value() == rule.value.has_value() || rule.steps.value_or(1) < 1) {
    throw ConfigError(text("early stopping by \"", rule.by.metric, "\" has no limit."),
                      "give a number of steps of at least 1, or a value to be reached.");
  }
  const bool smaller = mode_of(rule) == BestMode::min;
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

std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate, const Every& every,
                                                    const Clock& clock) {
  if (!predicate) {
    throw ConfigError("early stopping was given no predicate.",
                      "give a function that returns the reason to stop, or nothing.");
  }
  return std::make_shared<EarlyStopping>(std::move(predicate), every, clock);
}

}  // namespace troupe
