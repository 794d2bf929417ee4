#include "troupe/export/torch_script.h"

#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "troupe/core/check.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/export/predictor.h"
#include "troupe/export/traced_module.h"

namespace troupe {
namespace {

using detail::agree;
using detail::Predictor;
using detail::select;

/// Throws: ConfigError where `other`, for another batch size, has other names or shapes.
void check_same_form(const Predictions& predictions, const Predictions& other) {
  const auto same = [](const NamedTensor& a, const NamedTensor& b) {
    return a.first == b.first && a.second.scalar_type() == b.second.scalar_type() &&
           a.second.sizes().slice(1) == b.second.sizes().slice(1);
  };
  if (std::equal(predictions.begin(), predictions.end(), other.begin(), other.end(), same)) return;
  throw ConfigError("predict_step returns other names, types or shapes for another batch size.",
                    "return the same predictions always, each [B, ...] with B alone depending on "
                    "the batch.");
}

[[noreturn]] void refuse_export(std::int64_t count, std::int64_t traced, const std::string& what) {
  if (count == traced) {
    throw ConfigError(
        text("the exported model is not the original: for the ", count,
             " examples that it was traced on, ", what, "."),
        "compute predictions from the batch and from tensors that the models register "
        "as parameters or buffers, and change none of them.");
  }
  throw ConfigError(
      text("a batch size seems baked into the exported model: traced on ", traced,
           " examples, for ", count, " of them ", what, "."),
      "in the model use flatten(1) or -1 instead of x.size(0), zeros_like or expand to "
      "make tensors of B rows, and no branch that depends on sizes or values. LibTorch's own "
      "MultiheadAttention and Transformer layers do so: export them with --export-format onnx.");
}

std::vector<at::Tensor> run_module(torch::jit::Module& module,
                                   const std::vector<NamedTensor>& inputs) {
  torch::jit::Stack stack;
  for (const auto& [name, tensor] : inputs) stack.emplace_back(tensor);
  const c10::IValue result = module.forward(std::move(stack));
  if (result.isTensor()) return {result.toTensor()};
  std::vector<at::Tensor> outputs;
  for (const c10::IValue& value : result.toTuple()->elements()) outputs.push_back(value.toTensor());
  return outputs;
}

void compare(torch::jit::Module& module, const std::vector<NamedTensor>& examples,
             const Predictions& expected) {
  const std::int64_t count = expected.front().second.size(0);
  const std::int64_t traced = examples.front().second.size(0);
  std::vector<at::Tensor> outputs;
  try {
    outputs = run_module(module, select(examples, count));
  } catch (const std::exception& error) {
    refuse_export(count, traced, "it fails: " + detail::torch_reason(error));
  }
  TROUPE_CHECK_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!agree(outputs[i], expected[i].second)) {
      refuse_export(count, traced, text("\"", expected[i].first, "\" differs from predict_step's"));
    }
  }
}

/// `file`: a path or a stream.
template <class File>
torch::jit::Module load(File& file) {
  try {
    return torch::jit::load(file, at::kCPU);
  } catch (const std::exception& error) {
    // A part named "class" is written as it is, and is a keyword to the reader.
    throw ConfigError(
        text("LibTorch cannot read the model it wrote: ", detail::torch_reason(error)),
        "give the parts of the models names that are not words of Python's language.");
  }
}

/// Reads the file and holds it against predict_step.
template <class File>
void verify(File& file, const Predictor& predictor, const std::vector<NamedTensor>& examples,
            const Predictions& predictions) {
  const std::int64_t traced = examples.front().second.size(0);
  std::vector<Predictions> expected = {predictions};
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{traced == 7 ? 8 : 7}}) {
    expected.push_back(predictor.run(examples, count));
    check_same_form(predictions, expected.back());
  }
  torch::jit::Module module = load(file);
  // Twice: the executor optimises what it has seen before.
  for (int round = 0; round < 2; ++round) {
    for (const Predictions& wanted : expected) compare(module, examples, wanted);
  }
}

void save(const torch::jit::Module& module, const std::string& path) {
  try {
    module.save(path);
  } catch (const std::exception& error) {
    throw EnvironmentError(text("cannot write '", path, "': ", detail::torch_reason(error)),
                           "make the directory writable and free space on its file system.");
  }
}

std::vector<TensorSignature> signature_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSignature> signature;
  for (const auto& [name, tensor] : tensors) {
    signature.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    signature.back().shape.front() = -1;
  }
  return signature;
}

/// Saves the trace to `path` and verifies it, in memory if the path is empty.
ModelSignature write_from_cpu(const Predictor& predictor, const std::vector<NamedTensor>& examples,
                              const std::string& path) {
  const Predictions predictions = predictor.run_twice(examples);
  const torch::jit::Module module =
      detail::trace_module(predictor, select(examples, examples.front().second.size(0)));
  if (path.empty()) {
    std::stringstream memory;
    module.save(memory);
    verify(memory, predictor, examples, predictions);
  } else {
    try {
      save(module, path);
      verify(path, predictor, examples, predictions);
    } catch (...) {
      static_cast<void>(std::remove(path.c_str()));
      throw;
    }
  }
  return {signature_of(examples), signature_of(predictions)};
}

}  // namespace

ModelSignature write_torch_script(const Hooks& hooks, Replica& replica,
                                  const std::vector<NamedTensor>& examples,
                                  const std::string& path) {
  return detail::with_predictor(hooks, replica, examples, [&](const Predictor& predictor) {
    return write_from_cpu(predictor, examples, path);
  });
}

}  // namespace troupe
