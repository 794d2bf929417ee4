#include "troupe/estimator/job.h"

#include <torch/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/estimator/dry_run.h"
#include "troupe/estimator/evaluated_training.h"
#include "troupe/export/onnx_export.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/parameter_server/parameter_server.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/loop.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Evaluation& evaluation) {
  ordered_json line;
  line["global_step"] = evaluation.global_step;
  for (const auto& [name, value] : evaluation.metrics) line[name] = value;
  return line;
}

template <class Value>
ordered_json flat_values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const auto* begin = flat.data_ptr<Value>();
  return std::vector<Value>(begin, begin + flat.numel());
}

/// Nested as the tensor's dimensions are; float32 as the shortest text that reads back the same.
ordered_json json_of(const at::Tensor& tensor) {
  if (tensor.dim() > 1) {
    ordered_json rows = ordered_json::array();
    for (std::int64_t i = 0; i < tensor.size(0); ++i) rows.push_back(json_of(tensor[i]));
    return rows;
  }
  const at::Tensor host = tensor.to(torch::kCPU);
  ordered_json values;
  if (host.scalar_type() == torch::kFloat32) {
    values = flat_values<float>(host);
  } else if (at::isFloatingType(host.scalar_type())) {
    values = flat_values<double>(host.to(torch::kFloat64));
  } else {
    values = flat_values<std::int64_t>(host.to(torch::kInt64));
  }
  return tensor.dim() == 0 ? values.front() : values;
}

/// What the modes of a program print on stdout is JSON, one object a line.
bool print_line(const std::string& line) { return detail::print_text(line + "\n"); }

/// Nothing where nothing was evaluated.
void print(const TrainAndEvaluateResult& result) {
  if (!result.evaluation) return;
  ordered_json line;
  line["evaluation"] = json_of(*result.evaluation);
  line["exports"] = ordered_json::array();
  for (const auto& path : result.exports) {
    line["exports"].push_back(path ? ordered_json(*path) : ordered_json());
  }
  (void)print_line(line.dump());
}

/// The first `count` predictions, 0: all, as they are computed.
void print(PredictionStream predictions, std::int64_t count) {
  for (std::int64_t i = 0; count == 0 || i < count; ++i) {
    const auto next = predictions.next();
    if (!next) break;
    ordered_json line;
    for (const auto& [name, value] : *next) line[name] = json_of(value);
    if (!print_line(line.dump())) break;
  }
}

}  // namespace

Job::Job(const Hooks& hooks, const Options& options, JobExtras extras)
    : hooks_(hooks), options_(options), extras_(std::move(extras)) {
  if (options_.mode != Mode::train_and_evaluate || options_.strategy.cluster.is_server()) return;
  TrainSpec train = train_spec(options_.train);
  EvalSpec eval = eval_spec(options_.eval);
  if (!extras_.exporters.empty()) eval.exporters = extras_.exporters;
  extras_.callbacks.evaluates_checkpoints = true;
  train.callbacks = extras_.callbacks;
  evaluated_ = std::make_unique<EvaluatedTraining>(estimator(), std::move(train), std::move(eval));
}

Job::~Job() = default;

Estimator& Job::estimator() {
  if (!estimator_) {
    ModelExportOptions& exported = extras_.exported;
    if (options_.use.export_format != ExportFormat()) exported.format = options_.use.export_format;
    exported.lengths.insert(exported.lengths.end(), options_.use.export_lengths.begin(),
                            options_.use.export_lengths.end());
    Estimator plain(hooks_, {options_.train, options_.strategy, extras_.feature_names, exported});
    estimator_.emplace(extras_.metrics.empty() ? std::move(plain)
                                               : add_metrics(plain, extras_.metrics));
  }
  return *estimator_;
}

bool Job::done_without_training() {
  const Cluster& cluster = options_.strategy.cluster;
  if (options_.mode != Mode::train && options_.mode != Mode::train_and_evaluate) {
    if (cluster.rank > 0 || cluster.is_server()) {
      log_info("this mode is the chief's: nothing to do here");
    } else {
      use_model();
    }
    return true;
  }
  if (serve_if_server(hooks_, options_.strategy)) return true;
  if (options_.train.dry_run) {
    // What is exported and watched was tried when this job was made.
    if (!cluster.is_evaluator()) {
      DryRun(hooks_, options_, extras_.feature_names).run(extras_.callbacks);
    }
    return true;
  }
  if (!evaluated_ || !cluster.is_evaluator()) return false;
  report(evaluated_->run_evaluator());
  return true;
}

void Job::use_model() {
  UseOptions use = options_.use;
  const std::string& model_dir = options_.train.model_dir;
  if (use.checkpoint == "best") use.checkpoint = model_dir + "/best";
  if (!use.checkpoint.empty()) use.checkpoint = named_checkpoint(use.checkpoint);
  if (use.checkpoint.empty() && !std::filesystem::is_directory(model_dir)) {
    throw ConfigError("--model-dir is \"" + model_dir + "\", which is no directory.",
                      "name the directory of a training; this mode makes none.");
  }
  // An export says so by itself.
  const bool needs_checkpoint =
      options_.train.warm_start.from.empty() && options_.mode != Mode::export_model;
  if (needs_checkpoint && use.checkpoint.empty() && !estimator().latest_checkpoint()) {
    throw ConfigError("there is no checkpoint in " + model_dir + ".",
                      "check --model-dir, train first, or name the weights by --init-from.");
  }
  if (options_.mode == Mode::evaluate) {
    EvaluateCall call = eval_spec(options_.eval);
    call.checkpoint = use.checkpoint;
    const Evaluation evaluation = estimator().evaluate(call);
    if (options_.train.json_summary) {
      (void)print_line(ordered_json{{"evaluation", json_of(evaluation)}}.dump());
    }
  } else if (options_.mode == Mode::predict) {
    PredictCall call;
    call.keys = use.predict_keys;
    call.checkpoint = use.checkpoint;
    print(estimator().predict(call), use.predict_examples);
  } else {
    const std::string base = use.export_dir.empty() ? model_dir + "/export/manual" : use.export_dir;
    (void)print_line(estimator().export_model(base, use.checkpoint));
  }
}

Callbacks Job::callbacks() {
  if (!evaluated_) return std::move(extras_.callbacks);
  return evaluated_->training().callbacks;
}

void Job::after_training(const History& history) {
  if (evaluated_) report(evaluated_->after_training(history));
}

void Job::report(const TrainAndEvaluateResult& result) const {
  if (options_.train.json_summary) print(result);
  evaluated_->throw_if_export_failed();
}

void run_job(const Hooks& hooks, const Options& options, JobExtras extras) {
  Job job(hooks, options, std::move(extras));
  if (job.done_without_training()) return;
  const auto strategy = make_strategy(options.strategy);
  TrainState state = strategy->create_state(hooks, options.train.seed);
  const DistributedSplits data = strategy->distribute(hooks, options.train.batches());
  const History history = train(*strategy, hooks, state, data, options.train, job.callbacks());
  summarize(*strategy, state, history, test(*strategy, hooks, state, data), options.train);
  strategy->close();
  job.after_training(history);
}

}  // namespace troupe
