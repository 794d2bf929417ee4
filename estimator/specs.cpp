#include "estimator/specs.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "summaries/summary_reader.h"
#include "train/callbacks/early_stopping.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

void check_positive(const std::optional<std::int64_t>& value, const char* name) {
  if (value && *value < 1) {
    throw ConfigError(text(name, " is ", *value, "."), "give a number of at least 1, or none.");
  }
}

void check_not_negative(double value, const char* name) {
  if (!(value >= 0)) {
    throw ConfigError(text(name, " is ", value, "."), "give seconds, 0 or more.");
  }
}

void check_actions(const Actions& actions) {
  for (const auto& action : actions) {
    if (!action) throw ConfigError("an action is null.", "leave it out, or make it.");
  }
}

constexpr double kEarlyStopSeconds = 60;
constexpr std::int64_t kMostExports = 1'000'000;  // as good as all of them
constexpr double kMostSteps = 9e15;               // whole numbers up to here are exact as doubles

/// "loss:500"
struct MetricLimit {
  std::string metric;
  double limit = 0;
};

MetricLimit parse_limit(const std::string& flag, const std::string& value) {
  const auto colon = value.rfind(':');
  try {
    std::size_t end = 0;
    const double limit = std::stod(value.substr(colon + 1), &end);
    if (colon != std::string::npos && colon > 0 && end == value.size() - colon - 1) {
      return {value.substr(0, colon), limit};
    }
  } catch (const std::logic_error&) {  // not a number: below
  }
  throw ConfigError("--" + flag + " is \"" + value + "\".", "give METRIC:NUMBER, as loss:500.");
}

/// The limit as a number of steps.
std::int64_t steps_of(const MetricLimit& limit) {
  if (limit.limit >= 1 && limit.limit <= kMostSteps) return static_cast<std::int64_t>(limit.limit);
  throw ConfigError(
      text("early stopping by ", limit.metric, " is to wait for ", limit.limit, " steps."),
      "give a number of steps of at least 1, as loss:500.");
}

/// One of train/callbacks/early_stopping.h, whose limit is a number of steps or a value.
template <class Limit>
using Condition = StopReason (*)(const ScalarHistory&, const std::string&, Limit, std::int64_t);

IsBetter is_better(const EvalOptions& eval) {
  switch (eval.best_mode) {
    case BestMode::min:
      return smaller(eval.best_metric);
    case BestMode::max:
      return larger(eval.best_metric);
    case BestMode::automatic:
      break;
  }
  return better(eval.best_metric);
}

const SteadyClock& steady_clock() {
  static const SteadyClock clock;  // without state
  return clock;
}

}  // namespace

void TrainSpec::validate() const {
  check_positive(steps, "steps");
  check_positive(max_steps, "max_steps");
  if (steps && max_steps) {
    throw ConfigError("steps and max_steps are both given.", "keep one of the two.");
  }
  check_actions(companions.actions);
  for (const auto& listener : companions.listeners) {
    if (!listener) throw ConfigError("a saving listener is null.", "leave it out, or make it.");
  }
}

void EvalSpec::validate() const {
  check_positive(steps, "steps");
  check_positive(batch_size, "batch_size");
  if (!name.empty() && !is_file_name(name)) {
    throw ConfigError("the evaluation's name \"" + name + "\" is no file name.",
                      "use letters, digits, '.', '_' and '-'.");
  }
  check_actions(actions);
  check_not_negative(start_delay_secs, "start_delay_secs");
  check_not_negative(throttle_secs, "throttle_secs");
  if (idle_timeout_secs && !(*idle_timeout_secs > 0)) {
    throw ConfigError(text("idle_timeout_secs is ", *idle_timeout_secs, "."),
                      "give more than 0 seconds, or leave it unset to wait for ever.");
  }
  troupe::validate(exporters);
}

TrainSpec train_spec(const TrainOptions& train, const EvalOptions& eval) {
  TrainSpec spec;
  spec.max_steps = train.max_steps;
  const std::string directory =
      train.model_dir + (eval.name.empty() ? "/eval" : "/eval_" + eval.name);
  // Evaluations come with checkpoints, so that is how often there is news.
  const CheckpointCadence cadence = checkpoint_cadence(train);
  const Every every =
      cadence.steps ? Every::n_steps(*cadence.steps) : Every::n_seconds(kEarlyStopSeconds);
  const auto add = [&](const char* flag, const std::string& value, auto condition) {
    if (value.empty()) return;
    const MetricLimit to = parse_limit(flag, value);
    spec.companions.actions.push_back(make_early_stopping(
        [=, min_steps = eval.min_steps] {
          const ScalarHistory history = read_scalars(directory);
          if constexpr (std::is_same_v<decltype(condition), Condition<std::int64_t>>) {
            return condition(history, to.metric, steps_of(to), min_steps);
          } else {
            return condition(history, to.metric, to.limit, min_steps);
          }
        },
        every, steady_clock()));
  };
  add("stop-if-no-decrease", eval.stop_if_no_decrease, &stop_if_no_decrease);
  add("stop-if-no-increase", eval.stop_if_no_increase, &stop_if_no_increase);
  add("stop-if-lower", eval.stop_if_lower, &stop_if_lower);
  add("stop-if-higher", eval.stop_if_higher, &stop_if_higher);
  return spec;
}

std::vector<std::pair<std::string, std::string>> watched_metrics(const EvalOptions& eval) {
  std::vector<std::pair<std::string, std::string>> watched;
  const auto add = [&](const char* flag, const std::string& rule) {
    if (!rule.empty()) watched.emplace_back(text("--", flag), parse_limit(flag, rule).metric);
  };
  add("stop-if-no-decrease", eval.stop_if_no_decrease);
  add("stop-if-no-increase", eval.stop_if_no_increase);
  add("stop-if-lower", eval.stop_if_lower);
  add("stop-if-higher", eval.stop_if_higher);
  const auto& exporters = eval.exporters;
  if (std::find(exporters.begin(), exporters.end(), "best") != exporters.end()) {
    watched.emplace_back("--best-metric", eval.best_metric);
  }
  return watched;
}

EvalSpec eval_spec(const EvalOptions& eval) {
  EvalSpec spec;
  spec.steps = eval.steps;
  spec.batch_size = eval.batch_size;
  spec.name = eval.name;
  spec.start_delay_secs = eval.start_delay_secs;
  spec.throttle_secs = eval.throttle_secs;
  spec.idle_timeout_secs = eval.idle_timeout_secs;
  std::optional<int> keep;
  if (eval.exports_to_keep) {
    keep = static_cast<int>(std::clamp<std::int64_t>(*eval.exports_to_keep, 0, kMostExports));
  }
  for (const std::string& name : eval.exporters) {
    if (name == "latest") {
      spec.exporters.push_back(make_latest_exporter(name, keep));
    } else if (name == "final") {
      spec.exporters.push_back(make_final_exporter(name));
    } else if (name == "best") {
      spec.exporters.push_back(make_best_exporter(name, is_better(eval), keep));
    } else if (name == "onnx") {
      spec.exporters.push_back(make_onnx_exporter(name, keep));
    } else {
      throw ConfigError("there is no exporter \"" + name + "\".",
                        "use latest, final, best or onnx.");
    }
  }
  return spec;
}

}  // namespace troupe
