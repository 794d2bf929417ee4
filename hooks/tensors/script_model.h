// ScriptModel: a model that TorchScript has written, by Python or C++, as a model to train on.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace troupe {

/// A torch::nn::Module whose parameters, buffers and submodules are the script's, by its names: it
/// is added, trained, frozen, saved and found by name like any other.
///   const auto backbone = std::make_shared<troupe::ScriptModel>("backbone.pt");
/// A script that was frozen by torch.jit.freeze has no parameters left to train.
class ScriptModel final : public torch::nn::Module {
 public:
  /// Reads the file on the CPU. Throws: DataError where it is not one of TorchScript.
  explicit ScriptModel(const std::string& file);
  /// A copy of `script`, so that each replica has its own.
  explicit ScriptModel(const torch::jit::Module& script);
  ~ScriptModel() override;

  /// The script's forward. Throws: ConfigError where it does not return one tensor; what the script
  /// raises.
  at::Tensor forward(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& input) { return forward(std::vector<at::Tensor>{input}); }
  /// Of a script that returns a tuple or a list of tensors, or one: all of them.
  std::vector<at::Tensor> forward_all(const std::vector<at::Tensor>& inputs);

  void train(bool on = true) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

}  // namespace troupe
