#include "estimator/run_mode.h"

#include <torch/types.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "estimator/train_and_evaluate.h"
#include "servers/parameter_server.h"

namespace troupe {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const Evaluation& evaluation) {
  ordered_json json;
  json["global_step"] = evaluation.global_step;
  for (const auto& [name, value] : evaluation.metrics) json[name] = value;
  return json;
}

template <class Value>
ordered_json flat_values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const auto* begin = flat.data_ptr<Value>();
  return std::vector<Value>(begin, begin + flat.numel());
}

/// Nested as the tensor's dimensions are; float32 as the shortest text that reads back the same.
ordered_json to_json(const at::Tensor& tensor) {
  if (tensor.dim() > 1) {
    ordered_json rows = ordered_json::array();
    for (std::int64_t i = 0; i < tensor.size(0); ++i) rows.push_back(to_json(tensor[i]));
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

enum class Reader { listens, gone };

/// A line on stdout. A reader that has closed the pipe has what it wanted.
/// Throws: EnvironmentError where the line is lost otherwise.
Reader print_line(const std::string& line) {
  errno = 0;
  std::cout << line << '\n' << std::flush;
  if (std::cout) return Reader::listens;
  if (errno == EPIPE) return Reader::gone;
  throw EnvironmentError(text("standard output cannot be written: ", std::strerror(errno), "."),
                         "look for a full disk or a closed descriptor.");
}

void print(const ordered_json& json) { (void)print_line(json.dump()); }

void check_checkpoint(const Estimator& estimator, const UseOptions& use) {
  if (!use.require_checkpoint || !use.checkpoint.empty() || estimator.latest_checkpoint()) return;
  throw ConfigError("--require-checkpoint is given, and there is no checkpoint in " +
                        estimator.config().model_dir + ".",
                    "check --model-dir, or train first.");
}

void train_and_evaluate_mode(Estimator& estimator, const TrainSpec& train_spec,
                             const EvalSpec& eval_spec) {
  const auto result = train_and_evaluate(estimator, train_spec, eval_spec);
  if (!estimator.options().train.json_summary || !result.evaluation) return;
  ordered_json json;
  json["evaluation"] = to_json(*result.evaluation);
  json["exports"] = ordered_json::array();
  for (const auto& path : result.exports) {
    json["exports"].push_back(path ? ordered_json(*path) : ordered_json());
  }
  print(json);
}

void evaluate_mode(Estimator& estimator, const EvalSpec& spec, const UseOptions& use) {
  check_checkpoint(estimator, use);
  EvaluateCall call;
  call.input = spec.input;
  call.steps = spec.steps;
  call.batch_size = spec.batch_size;
  call.name = spec.name;
  call.actions = spec.actions;
  call.checkpoint = use.checkpoint;
  const Evaluation evaluation = estimator.evaluate(call);
  if (estimator.options().train.json_summary) print({{"evaluation", to_json(evaluation)}});
}

void predict_mode(Estimator& estimator, const UseOptions& use) {
  check_checkpoint(estimator, use);
  PredictCall call;
  call.keys = use.predict_keys;
  call.per = use.predict_batches ? PredictionStream::Per::batch : PredictionStream::Per::example;
  call.checkpoint = use.checkpoint;
  PredictionStream predictions = estimator.predict(call);
  for (std::int64_t count = 0; use.predict_examples == 0 || count < use.predict_examples; ++count) {
    const auto next = predictions.next();
    if (!next) break;
    ordered_json line;
    for (const auto& [name, value] : *next) line[name] = to_json(value);
    if (print_line(line.dump()) == Reader::gone) break;
  }
}

void export_mode(Estimator& estimator, const UseOptions& use) {
  const std::string base =
      use.export_dir.empty() ? estimator.config().model_dir + "/export/manual" : use.export_dir;
  (void)print_line(estimator.export_model(base, use.checkpoint));
}

}  // namespace

void run_mode(Mode mode, Estimator& estimator, const TrainSpec& train_spec,
              const EvalSpec& eval_spec, const UseOptions& use) {
  const bool alone = mode != Mode::train && mode != Mode::train_and_evaluate;
  const Cluster& cluster = estimator.options().strategy.cluster;
  if (alone && (cluster.rank > 0 || cluster.is_server())) {
    log_info("this mode is the chief's: nothing to do here");
    return;
  }
  switch (mode) {
    case Mode::train: {
      if (serve_if_server(*estimator.hooks(), estimator.options().strategy)) return;
      TrainCall call;
      call.input = train_spec.input;
      call.max_steps = train_spec.max_steps;
      call.companions = train_spec.companions;
      (void)estimator.train(call);
      estimator.close();
      return;
    }
    case Mode::train_and_evaluate:
      train_and_evaluate_mode(estimator, train_spec, eval_spec);
      return;
    case Mode::evaluate:
      evaluate_mode(estimator, eval_spec, use);
      return;
    case Mode::predict:
      predict_mode(estimator, use);
      return;
    case Mode::export_model:
      export_mode(estimator, use);
      return;
  }
}

}  // namespace troupe
