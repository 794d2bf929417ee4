#include "estimator/mode_output.h"

#include <torch/types.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Evaluation& evaluation) {
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

}  // namespace

Reader print_line(const std::string& line) {
  errno = 0;
  std::cout << line << '\n' << std::flush;
  if (std::cout) return Reader::listens;
  if (errno == EPIPE) return Reader::gone;
  throw EnvironmentError(text("standard output cannot be written: ", std::strerror(errno), "."),
                         "look for a full disk or a closed descriptor.");
}

void print(const Evaluation& evaluation) {
  (void)print_line(ordered_json{{"evaluation", json_of(evaluation)}}.dump());
}

void print(const TrainAndEvaluateResult& result) {
  if (!result.evaluation) return;
  ordered_json json;
  json["evaluation"] = json_of(*result.evaluation);
  json["exports"] = ordered_json::array();
  for (const auto& path : result.exports) {
    json["exports"].push_back(path ? ordered_json(*path) : ordered_json());
  }
  (void)print_line(json.dump());
}

void print(PredictionStream predictions, std::int64_t count) {
  for (std::int64_t i = 0; count == 0 || i < count; ++i) {
    const auto next = predictions.next();
    if (!next) break;
    ordered_json line;
    for (const auto& [name, value] : *next) line[name] = json_of(value);
    if (print_line(line.dump()) == Reader::gone) break;
  }
}

}  // namespace troupe::detail
