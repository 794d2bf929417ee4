#include <algorithm>

#include "cli/flags_builtin.h"
#include "cli/flags_making.h"
#include "cluster/numbers.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

constexpr std::size_t kLongestStem = 100;  // of an evaluation: it becomes part of a folder's name

/// Whether `name` can be part of a file's name, and is not hidden or a way upwards.
bool is_safe_name(const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kLongestStem && plain(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

Flag eval_name(EvalOptions& eval) {
  Flag made = with_value_name(flag("eval-name", &eval.name, "results go to eval_NAME; unset: eval"),
                              "NAME");
  made.assign = [target = &eval.name](const std::string& value) -> Fix {
    if (!is_safe_name(value)) {
      return text("give at most ", kLongestStem,
                  " letters, digits, dashes, underscores and dots, the first a letter or digit.");
    }
    *target = value;
    return std::nullopt;
  };
  return made;
}

/// What follows the last colon of "metric:number"; unset where a side is missing.
std::optional<std::string> number_part(const std::string& value) {
  const std::size_t colon = value.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == value.size()) return std::nullopt;
  return value.substr(colon + 1);
}

/// A rule "metric:number", kept as text. `accepts` judges the number.
Flag stop_rule(const char* name, std::string* target, const char* help, const char* value_name,
               bool (*accepts)(const std::string&), const char* fix) {
  Flag made = with_value_name(flag(name, target, help), value_name);
  made.assign = [target, accepts, fix](const std::string& value) -> Fix {
    const auto number = number_part(value);
    if (!number || !accepts(*number)) return fix;
    *target = value;
    return std::nullopt;
  };
  return made;
}

bool is_step_count(const std::string& number) {
  return parse_integer<std::int64_t>(number).value_or(0) > 0;
}

bool is_real(const std::string& number) { return parse_real(number).has_value(); }

std::string without_last_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool names_checkpoint(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::string prefix = "model.ckpt-";
  if (name.compare(0, prefix.size(), prefix) != 0) return false;
  const std::string step = name.substr(prefix.size());
  return step.find_first_not_of("0123456789") == std::string::npos &&
         parse_integer<std::int64_t>(step).has_value();
}

Flag checkpoint(UseOptions& use) {
  Flag made = with_value_name(
      flag("checkpoint", &use.checkpoint, "use this one; unset: the newest of --model-dir"), "DIR");
  made.assign = [target = &use.checkpoint](const std::string& value) -> Fix {
    const std::string path = without_last_slashes(value);
    if (!names_checkpoint(path)) return "name the folder of one checkpoint: .../model.ckpt-1200.";
    *target = path;
    return std::nullopt;
  };
  return made;
}

}  // namespace

void add_evaluation_flags(std::vector<Flag>& flags, EvalOptions& eval) {
  FlagGroup list(flags, "Evaluation and export");
  list.add(
      whole_or_all("eval-steps", &eval.steps, "batches of an evaluation; 0: the whole data set"));
  list.add(eval_name(eval));
  list.add_rare(at_least(1, "eval-batch-size", &eval.batch_size,
                         "examples per batch of an evaluation; unset: as in training"));
  list.add_rare(pause("start-delay-secs", &eval.start_delay_secs,
                      "wait of the evaluator before its first evaluation"));
  list.add(pause("throttle-secs", &eval.throttle_secs,
                 "at least this long between starts of evaluations; 0: every checkpoint"));
  list.add_rare(optional_seconds(
      "idle-timeout-secs", &eval.idle_timeout_secs, Zero::refused,
      "the evaluator ends after this long without a new checkpoint; unset: never"));
  list.add(name_list(
      "exporter", &eval.exporters,
      "latest, final (the last evaluation), best, onnx (latest, as ONNX), or several with "
      "commas; none",
      {"latest", "final", "best", "onnx"}, "none"));
  list.add_rare(whole_or_all("exports-to-keep", &eval.exports_to_keep,
                             "keep the newest N exports of each exporter; 0: all"));
  list.add(path("best-metric", &eval.best_metric, "what the exporter best compares", "METRIC"));
  list.add(choice("best-mode", &eval.best_mode,
                  "min: a smaller --best-metric is better; max: a larger one; auto: as the metric "
                  "says (losses: min)",
                  "MODE", named<BestMode>({BestMode::automatic, BestMode::min, BestMode::max})));
}

void add_early_stopping_flags(std::vector<Flag>& flags, EvalOptions& eval) {
  FlagGroup list(flags, "Early stopping");
  const char* const steps = "write METRIC:STEPS, for example loss:1000.";
  const char* const value = "write METRIC:VALUE, for example accuracy:0.98.";
  list.add(stop_rule("stop-if-no-decrease", &eval.stop_if_no_decrease,
                     "end if METRIC has not decreased for STEPS steps", "METRIC:STEPS",
                     is_step_count, steps));
  list.add(stop_rule("stop-if-no-increase", &eval.stop_if_no_increase,
                     "end if METRIC has not increased for STEPS steps", "METRIC:STEPS",
                     is_step_count, steps));
  list.add_rare(stop_rule("stop-if-lower", &eval.stop_if_lower,
                          "end when an evaluation's METRIC is below VALUE", "METRIC:VALUE", is_real,
                          value));
  list.add_rare(stop_rule("stop-if-higher", &eval.stop_if_higher,
                          "end when an evaluation's METRIC is above VALUE", "METRIC:VALUE", is_real,
                          value));
  list.add_rare(at_least(0, "min-steps", &eval.min_steps, "no early stop before this step"));
}

void add_use_flags(std::vector<Flag>& flags, UseOptions& use) {
  FlagGroup list(flags, "Use a trained model");
  list.add(checkpoint(use));
  list.add(flag("require-checkpoint", &use.require_checkpoint,
                "fail without a checkpoint, instead of using fresh weights"));
  list.add(name_list("predict-keys", &use.predict_keys,
                     "outputs to print, with commas between them; unset: all", {}, ""));
  list.add_rare(
      flag("predict-batches", &use.predict_batches, "one line of JSON per batch, not per example"));
  list.add(at_least(0, "predict-examples", &use.predict_examples,
                    "predict the first N examples (batches) only; 0: all"));
  list.add(path("export-dir", &use.export_dir,
                "where --mode export writes; unset: export/manual of --model-dir", "DIR"));
  list.add(choice("export-format", &use.export_format,
                  "torchscript or onnx: what --mode export and every --exporter but onnx write",
                  "FORMAT", named<ExportFormat>({ExportFormat::torch_script, ExportFormat::onnx})));
  list.add_rare(name_list("export-lengths", &use.export_lengths,
                          "lengths that may differ from call to call in ONNX, beside the batch: "
                          "INPUT:DIMENSION=NAME, several with commas",
                          {}, ""));
}

}  // namespace troupe::detail
