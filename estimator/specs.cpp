#include "troupe/estimator/specs.h"

#include <algorithm>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

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

constexpr std::int64_t kMostExports = 1'000'000;  // as good as all of them
std::function<bool(const Evaluation&, const Evaluation&)> is_better(const EvalOptions& eval) {
  switch (eval.best.better) {
    case Better::lower:
      return smaller(eval.best.metric);
    case Better::higher:
      return larger(eval.best.metric);
    case Better::unknown:
      break;
  }
  return better(eval.best.metric);
}

}  // namespace

void TrainSpec::validate() const {
  check_positive(steps, "steps");
  check_positive(max_steps, "max_steps");
  if (steps && max_steps) {
    throw ConfigError("steps and max_steps are both given.", "keep one of the two.");
  }
  check_actions(callbacks.actions);
  for (const auto& listener : callbacks.listeners) {
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

TrainSpec train_spec(const TrainOptions& train) {
  TrainSpec spec;
  spec.max_steps = train.max_steps;
  return spec;
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
