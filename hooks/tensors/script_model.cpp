#include "troupe/hooks/tensors/script_model.h"

#include <torch/script.h>

#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

/// The mode of this part of a script alone; torch::jit::Module::train would set those below, too.
void set_mode(const torch::jit::Module& script, bool on) {
  if (const auto slot = script._ivalue()->type()->findAttributeSlot("training")) {
    script._ivalue()->setSlot(*slot, on);
  }
}

/// A submodule of a script.
class Part final : public torch::nn::Module {
 public:
  explicit Part(torch::jit::Module script) : script_(std::move(script)) {}
  void train(bool on) override {
    torch::nn::Module::train(on);
    set_mode(script_, on);
  }

 private:
  torch::jit::Module script_;
};

[[nodiscard]] bool mode_of(const torch::jit::Module& script) {
  const auto slot = script._ivalue()->type()->findAttributeSlot("training");
  return !slot || script._ivalue()->getSlot(*slot).toBool();
}

/// The script's tensors become the module's, not copies of them; each part has the script's mode.
void share(const torch::jit::Module& script, torch::nn::Module& module) {
  module.train(mode_of(script));  // before it has parts, which this would set, too
  for (const auto& each : script.named_parameters(/*recurse=*/false)) {
    module.register_parameter(each.name, each.value, each.value.requires_grad());
  }
  for (const auto& each : script.named_buffers(/*recurse=*/false)) {
    module.register_buffer(each.name, each.value);
  }
  for (const auto& each : script.named_children()) {
    const auto part = std::make_shared<Part>(each.value);
    share(each.value, *part);
    module.register_module(each.name, part);
  }
}

/// A copy of a parameter would be a result of it: what trains is to be a leaf of its own.
torch::jit::Module copy_of(const torch::jit::Module& script) {
  const torch::NoGradGuard no_gradients;
  torch::jit::Module copy = script.deepcopy();
  std::vector<bool> trained;
  for (const at::Tensor& parameter : script.parameters()) {
    trained.push_back(parameter.requires_grad());
  }
  std::size_t i = 0;
  for (const at::Tensor& parameter : copy.parameters()) parameter.set_requires_grad(trained[i++]);
  return copy;
}

torch::jit::Module read(const std::string& file) {
  try {
    return torch::jit::load(file, torch::kCPU);
  } catch (const c10::Error& error) {
    throw DataError(text("\"", file, "\" cannot be read as a model of TorchScript: ",
                         error.what_without_backtrace()),
                    "write it in Python by torch.jit.script(model).save(\"model.pt\") or "
                    "torch.jit.trace(model, inputs).save(\"model.pt\"); a file that torch.save "
                    "wrote is another format.");
  }
}

}  // namespace

ScriptModel::ScriptModel(const std::string& file) : ScriptModel(read(file)) {}

ScriptModel::ScriptModel(const torch::jit::Module& script)
    : script_(std::make_unique<torch::jit::Module>(copy_of(script))) {
  share(*script_, *this);
}

ScriptModel::~ScriptModel() = default;

void ScriptModel::train(bool on) {
  torch::nn::Module::train(on);
  set_mode(*script_, on);
}

std::vector<at::Tensor> ScriptModel::forward_all(const std::vector<at::Tensor>& inputs) {
  const torch::jit::IValue made = script_->forward({inputs.begin(), inputs.end()});
  if (made.isTensor()) return {made.toTensor()};
  if (made.isTensorList()) return made.toTensorVector();
  std::vector<at::Tensor> all;
  if (made.isTuple()) {
    for (const torch::jit::IValue& each : made.toTupleRef().elements()) {
      if (!each.isTensor()) break;
      all.push_back(each.toTensor());
    }
    if (all.size() == made.toTupleRef().elements().size()) return all;
  }
  throw ConfigError(text("a script's forward returned a ", made.tagKind(), ", not tensors."),
                    "script a module whose forward returns a tensor or a tuple of tensors.");
}

at::Tensor ScriptModel::forward(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> made = forward_all(inputs);
  if (made.size() == 1) return made.front();
  throw ConfigError(text("a script's forward returned ", made.size(), " tensors."),
                    "call forward_all, which returns all of them.");
}

}  // namespace troupe
