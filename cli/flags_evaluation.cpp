#include <algorithm>

#include "troupe/cli/flags_builtin.h"
#include "troupe/cli/flags_making.h"
#include "troupe/core/file_system.h"
#include "troupe/core/numbers.h"
#include "troupe/core/text.h"

namespace troupe::detail {
namespace {

constexpr std::size_t kLongestStem = 100;  // of an evaluation: it becomes part of a folder's name

/// Whether `name` can be part of a file's name, and is not hidden or a way upwards.
bool is_safe_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestStem &&
         std::string("._-").find(name.front()) == std::string::npos &&
         std::all_of(name.begin(), name.end(), is_name_character);
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

Flag best_metric(Options& options) {
  Flag made = with_value_name(
      flag("best", &options.eval.best.metric,
           "what is best by: kept as a checkpoint where the training loop validates, exported by "
           "--exporter best; METRIC:min, METRIC:max, or METRIC: as it says itself (losses: min)"),
      "METRIC");
  made.assign = [&options](const std::string& value) -> Fix {
    const auto rule = parse_metric_rule(value);
    if (!rule) return "write METRIC, METRIC:min or METRIC:max, for example accuracy:max.";
    options.eval.best = *rule;
    options.train.best = rule;
    return std::nullopt;
  };
  made.show = [&options] { return to_text(options.eval.best); };
  return made;
}

Flag early_stopping(TrainOptions& train) {
  const auto shown = [&train] {
    std::vector<std::string> rules;
    for (const StopRule& rule : train.early_stopping) rules.push_back(to_text(rule));
    return join(rules, ",");
  };
  const auto assign = [&train](const std::string& value) -> Fix {
    std::vector<StopRule> rules;
    for (const std::string& written : split(value, ',')) {
      const auto rule = parse_stop_rule(written);
      if (!rule) {
        return "write METRIC:STEPS or METRIC=VALUE, for example loss:1000 or accuracy:max=0.98, or "
               "several with commas.";
      }
      rules.push_back(*rule);
    }
    train.early_stopping = std::move(rules);
    return std::nullopt;
  };
  return {"early-stopping",
          FlagKind::text,
          "RULES",
          "end training when a metric has not become better for some steps (loss:1000), or has "
          "reached a value (accuracy=0.98); :min or :max behind its name as for --best",
          assign,
          shown};
}

bool names_checkpoint(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  if (name == "best") return true;
  const std::string prefix = "model.ckpt-";
  if (name.compare(0, prefix.size(), prefix) != 0) return false;
  const std::string step = name.substr(prefix.size());
  return step.find_first_not_of("0123456789") == std::string::npos &&
         parse_integer<std::int64_t>(step).has_value();
}

Flag checkpoint(UseOptions& use) {
  Flag made = with_value_name(flag("checkpoint", &use.checkpoint,
                                   "use this one, or best; unset: the newest of --model-dir"),
                              "DIR");
  made.assign = [target = &use.checkpoint](const std::string& value) -> Fix {
    const std::string path = without_last_slashes(value);
    if (!names_checkpoint(path))
      return "name the folder of one checkpoint, .../model.ckpt-1200, or .../best.";
    *target = path;
    return std::nullopt;
  };
  return made;
}

}  // namespace

void add_evaluation_flags(std::vector<Flag>& flags, Options& options) {
  EvalOptions& eval = options.eval;
  UseOptions& use = options.use;
  FlagGroup list(flags, "Evaluation and export", FlagGroup::Of::evaluates);
  list.add(
      whole_or_all("eval-steps", &eval.steps, "batches of an evaluation; 0: the whole data set"));
  list.add_rare(eval_name(eval));
  list.add_rare(pause("start-delay-secs", &eval.start_delay_secs,
                      "wait of the evaluator before its first evaluation"));
  list.add_rare(pause("throttle-secs", &eval.throttle_secs,
                      "at least this long between starts of evaluations; 0: every checkpoint"));
  list.add_rare(with_value_name(
      real(
          "idle-timeout-secs", &eval.idle_timeout_secs,
          "the evaluator ends after this long without a new checkpoint; unset: never",
          [](double x) { return x > 0; }, "give a number greater than 0."),
      "SECS"));
  list.add(name_list(
      "exporter", &eval.exporters,
      "latest, final (the last evaluation), best, onnx (latest, as ONNX), or several with "
      "commas; none",
      {"latest", "final", "best", "onnx"}, "none"));
  list.add_rare(
      choice("export-format", &use.export_format,
             "torchscript or onnx: what --mode export and every --exporter but onnx write",
             "FORMAT", named<ExportFormat>({ExportFormat::torch_script, ExportFormat::onnx})));
  list.add_rare(name_list("export-lengths", &use.export_lengths,
                          "lengths that may differ from call to call in ONNX, beside the batch: "
                          "INPUT:DIMENSION=NAME, several with commas",
                          {}, ""));
  FlagGroup choosing(flags, "The best, and early stopping");
  choosing.add(matching(best_metric(options)));
  choosing.add(matching(early_stopping(options.train)));
}

void add_use_flags(std::vector<Flag>& flags, UseOptions& use) {
  FlagGroup list(flags, "Use a trained model");
  list.add(checkpoint(use));
  list.add_rare(name_list("predict-keys", &use.predict_keys,
                          "outputs to print, with commas between them; unset: all", {}, ""));
  list.add(at_least(0, "predict-examples", &use.predict_examples,
                    "predict the first N examples only; 0: all"));
  list.add(path("export-dir", &use.export_dir,
                "where --mode export writes; unset: export/manual of --model-dir", "DIR"));
}

}  // namespace troupe::detail
