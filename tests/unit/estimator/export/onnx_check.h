// For the tests of the export to ONNX: models, and a check of what is exported against predict_step
// by ONNX's checker and a runtime, as far as they are here (tests/interop/check_onnx.py).
//
// Legend: B examples, T places of a sequence.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/onnx_cases.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/estimator/export/export_hooks.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/export/onnx_export.h"
#include "troupe/hooks/tensors/tensor_file.h"

namespace troupe::testing {

using Tensors = std::vector<at::Tensor>;

struct OnnxModel {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  /// The predictions from the module and the inputs.
  std::function<Predictions(torch::nn::Module&, const Tensors&)> predict;
  std::vector<std::string> inputs;
  std::vector<DynamicLength> lengths;
  /// Inputs for B examples and lengths of T.
  std::function<Tensors(std::int64_t B, std::int64_t T)> examples;

  [[nodiscard]] ExportHooks hooks() const {
    return {[make = make] {
              auto module = make();
              // A model needs a parameter to be trained.
              if (module->parameters().empty()) {
                module->register_parameter("unused", torch::zeros({1}));
              }
              return Trainable(module,
                               std::make_shared<torch::optim::SGD>(module->parameters(), 1));
            },
            [predict = predict](Replica& replica, const Batch& batch) {
              return predict(*replica.models().front().second, batch.fields);
            }};
  }
  [[nodiscard]] std::vector<NamedTensor> named(const Tensors& tensors) const {
    std::vector<NamedTensor> result;
    for (std::size_t i = 0; i < tensors.size(); ++i) result.emplace_back(inputs[i], tensors[i]);
    return result;
  }
};

/// A model of float inputs x [B, 4, 6] and y [B, 1, 6], whole numbers i [B, 6] from 0 to 3, and a
/// mask m [B, 6], with many predictions, an operator or a few each.
struct OpInputs {
  at::Tensor x, y, i, m;
};
using Op = std::function<at::Tensor(const OpInputs&)>;
[[nodiscard]] inline OnnxModel model_of(
    const std::string& name, const std::vector<std::pair<std::string, Op>>& predictions) {
  OnnxModel model;
  model.name = name;
  model.make = [] { return torch::nn::Linear(1, 1).ptr(); };
  model.predict = [predictions](torch::nn::Module&, const Tensors& in) {
    Predictions out;
    for (const auto& [output, op] : predictions) {
      out.emplace_back(output, op({in[0], in[1], in[2], in[3]}));
    }
    return out;
  };
  model.inputs = {"x", "y", "i", "m"};
  model.examples = [](std::int64_t count, std::int64_t) -> Tensors {
    return {torch::randn({count, 4, 6}), torch::randn({count, 1, 6}),
            torch::randint(4, {count, 6}, torch::kLong), torch::rand({count, 6}) < 0.5};
  };
  return model;
}

[[nodiscard]] inline std::vector<NamedTensor> read_cases(const std::filesystem::path& folder) {
  const std::string content = content_of((folder / "cases.safetensors").string());
  const auto* begin = reinterpret_cast<const std::byte*>(content.data());
  return read_tensors(std::vector<std::byte>(begin, begin + content.size()), "cases");
}

/// model.onnx from 4 examples of length 9, and predictions for other sizes, in `folder`.
inline void export_with_cases(const OnnxModel& model, const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  const auto hooks = model.hooks();
  OneReplica replica(hooks);
  const ModelSignature signature =
      write_onnx(hooks, *replica, model.named(model.examples(4, 9)), model.lengths,
                 /*global_step=*/7, (folder / "model.onnx").string());
  CHECK(signature.inputs.front().shape.front() == -1);
  std::vector<NamedTensor> cases;
  for (const auto& [count, length] :
       std::vector<std::pair<int, int>>{{1, 3}, {2, 9}, {7, 12}, {16, 2}}) {
    const Tensors inputs = model.examples(count, length);
    const std::string prefix = text(count, "x", length);
    for (const auto& [name, tensor] : model.named(inputs)) {
      cases.emplace_back(prefix + "/in/" + name, tensor.contiguous());
    }
    for (const auto& [name, tensor] : predicted(hooks, *replica, inputs)) {
      cases.emplace_back(prefix + "/out/" + name, tensor.contiguous());
    }
  }
  write_cases(folder, cases);
}

/// Exports every model; the checker and the runtime see all of them.
inline void check_models(const std::vector<OnnxModel>& models) {
  const TempDir dir;
  std::vector<std::string> folders;
  for (const OnnxModel& model : models) {
    CAPTURE(model.name);
    folders.push_back(dir / model.name);
    export_with_cases(model, folders.back());
  }
  const auto result = check_onnx(folders);
  std::cerr << result.out;  // what was run, and what was skipped
  INFO(result.err);
  CHECK((result.exit_code == 0 || result.exit_code == kNothingHere));
}

/// What write_onnx answers, with nothing written when it throws.
[[nodiscard]] inline std::string refusal(const OnnxModel& model) {
  const TempDir dir;
  const std::string path = dir / "model.onnx";
  const auto hooks = model.hooks();
  OneReplica replica(hooks);
  try {
    (void)write_onnx(hooks, *replica, model.named(model.examples(4, 9)), model.lengths, 0, path);
    return "";
  } catch (const ConfigError& error) {
    CHECK(!std::filesystem::exists(path));
    return error.what();
  }
}

/// The refusal of a model of one operator or a few.
[[nodiscard]] inline std::string refusal_of(const Op& op) {
  return refusal(model_of("one", {{"out", op}}));
}

}  // namespace troupe::testing
