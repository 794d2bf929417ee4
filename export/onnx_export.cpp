#include "troupe/export/onnx_export.h"

#include <torch/types.h>

#include <algorithm>
#include <regex>

#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/export/onnx/onnx_model.h"
#include "troupe/export/predictor.h"
#include "troupe/export/trace_reading.h"
#include "troupe/export/traced_module.h"

namespace troupe {
namespace {

using detail::DynamicSize;

constexpr const char* kBatch = "batch";
// Three sizes of batches to trace at. None is 1, which LibTorch treats in its own way.
constexpr std::array<std::int64_t, 3> kBatches = {3, 5, 2};
constexpr std::int64_t kLeastLength = 4;  // so that two shorter ones can be traced

/// Throws: ConfigError where the length is none of an input's dimensions.
DynamicSize::Place place_of(const DynamicLength& length, const std::vector<NamedTensor>& examples) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto& [name, tensor] = examples[i];
    names.push_back(name);
    if (name != length.input) continue;
    if (length.dimension >= 1 && length.dimension < tensor.dim()) {
      return {i, static_cast<std::size_t>(length.dimension)};
    }
    throw ConfigError(
        text("the length \"", length.name, "\" is dimension ", length.dimension, " of the input \"",
             name, "\", which has the shape ", tensor.sizes(), "."),
        "count dimensions from 0, which is the batch and always dynamic.");
  }
  throw ConfigError(text("the length \"", length.name, "\" is of an input \"", length.input,
                         "\", which there is not."),
                    text("name one of: ", join(names), "."));
}

/// The batch, then the lengths by name.
std::vector<DynamicSize> dynamic_sizes(const std::vector<NamedTensor>& examples,
                                       const std::vector<DynamicLength>& lengths) {
  std::vector<DynamicSize> sizes = {{kBatch, {}}};
  for (std::size_t i = 0; i < examples.size(); ++i) sizes.front().places.push_back({i, 0});
  for (const DynamicLength& length : lengths) {
    const auto same = [&](const DynamicSize& size) { return size.name == length.name; };
    auto known = std::find_if(sizes.begin() + 1, sizes.end(), same);
    if (known == sizes.end()) {
      if (length.name == kBatch || sizes.size() == detail::kMostDynamicSizes) {
        throw ConfigError(text("the length \"", length.name, "\" is one too many, or has the name ",
                               "of the batch."),
                          text("give at most ", detail::kMostDynamicSizes - 1,
                               " names, none of them \"", kBatch, "\"."));
      }
      known = sizes.insert(sizes.end(), {length.name, {}});
    }
    known->places.push_back(place_of(length, examples));
  }
  return sizes;
}

std::int64_t size_at(const std::vector<NamedTensor>& examples, const DynamicSize::Place& place) {
  return examples[place.input].second.size(static_cast<std::int64_t>(place.dimension));
}

/// Throws: ConfigError where dimensions of one name differ, or are too short to be shortened.
void check_lengths(const std::vector<NamedTensor>& examples,
                   const std::vector<DynamicSize>& sizes) {
  for (std::size_t s = 1; s < sizes.size(); ++s) {
    const std::int64_t first = size_at(examples, sizes[s].places.front());
    for (const DynamicSize::Place& place : sizes[s].places) {
      const std::int64_t size = size_at(examples, place);
      if (size == first && size >= kLeastLength) continue;
      throw ConfigError(text("the length \"", sizes[s].name, "\" is ", size, " in the examples' \"",
                             examples[place.input].first, "\"."),
                        text("let all its dimensions have one size, ", kLeastLength, " at least."));
    }
  }
}

std::vector<std::vector<std::int64_t>> sizes_to_trace(const std::vector<NamedTensor>& examples,
                                                      const std::vector<DynamicSize>& sizes) {
  std::array<std::vector<std::int64_t>, 3> at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    at[i].push_back(kBatches[i]);
    for (std::size_t s = 1; s < sizes.size(); ++s) {
      at[i].push_back(size_at(examples, sizes[s].places.front()) - static_cast<std::int64_t>(i));
    }
  }
  return detail::sizes_to_trace(at[0], at[1], at[2]);
}

/// The examples, in these sizes.
std::vector<NamedTensor> resized(const std::vector<NamedTensor>& examples,
                                 const std::vector<DynamicSize>& sizes,
                                 const std::vector<std::int64_t>& wanted) {
  std::vector<NamedTensor> inputs = detail::select(examples, wanted.front());
  for (std::size_t s = 1; s < sizes.size(); ++s) {
    for (const auto& [input, dimension] : sizes[s].places) {
      at::Tensor& tensor = inputs[input].second;
      tensor = tensor.narrow(static_cast<std::int64_t>(dimension), 0, wanted[s]).contiguous();
    }
  }
  return inputs;
}

/// -1 for what is not fixed.
TensorSignature signature_of(const std::string& name, const at::Tensor& tensor,
                             const detail::TracedValue& traced) {
  TensorSignature signature{name, tensor.scalar_type(), {}};
  for (const detail::Size& size : std::get<detail::TracedTensor>(traced).shape) {
    signature.shape.push_back(size.is_known() && size.is_fixed() ? size.fixed() : -1);
  }
  return signature;
}

ModelSignature write_from_cpu(const detail::Predictor& predictor,
                              const std::vector<NamedTensor>& examples,
                              const std::vector<DynamicSize>& sizes, std::int64_t global_step,
                              const std::string& path) {
  const Predictions predictions = predictor.run_twice(examples);
  std::vector<std::string> names;
  for (const DynamicSize& size : sizes) names.push_back(size.name);
  const auto wanted = sizes_to_trace(examples, sizes);
  std::vector<detail::TracedGraph> traces;
  for (const auto& at : wanted) {
    traces.push_back(
        detail::read_trace(detail::trace_module(predictor, resized(examples, sizes, at))));
  }
  const detail::TracedGraph trace = detail::merge_traces(traces, wanted, names);
  detail::OnnxInterface interface { {}, {}, sizes, global_step };
  ModelSignature signature;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto& [name, tensor] = examples[i];
    interface.inputs.push_back(name);
    signature.inputs.push_back(signature_of(name, tensor, trace.values[trace.inputs[i]]));
  }
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const auto& [name, tensor] = predictions[i];
    interface.outputs.push_back(name);
    signature.outputs.push_back(signature_of(name, tensor, trace.values[trace.outputs[i]]));
  }
  detail::write_onnx_model(trace, interface, path);
  return signature;
}

}  // namespace

DynamicLength parse_dynamic_length(const std::string& given) {
  std::smatch parts;
  if (!std::regex_match(given, parts, std::regex("([^]+):([1-9])=([^=]+)"))) {
    throw ConfigError(text("\"", given, "\" is not a length of an exported model."),
                      "write INPUT:DIMENSION=NAME, for example tokens:1=length.");
  }
  return {parts[1], *parts[2].first - '0', parts[3]};
}

ModelSignature write_onnx(const Hooks& hooks, Replica& replica,
                          const std::vector<NamedTensor>& examples,
                          const std::vector<DynamicLength>& lengths, std::int64_t global_step,
                          const std::string& path) {
  return detail::with_predictor(hooks, replica, examples, [&](const detail::Predictor& predictor) {
    const std::vector<DynamicSize> sizes = dynamic_sizes(examples, lengths);
    check_lengths(examples, sizes);
    return write_from_cpu(predictor, examples, sizes, global_step, path);
  });
}

}  // namespace troupe
