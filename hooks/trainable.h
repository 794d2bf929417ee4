// Trainable: what create_model returns: models and optimisers by name, usually one of each, and
// buffers of the hooks' own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/hooks/tensors/named_tensor.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace torch::optim {
class Optimizer;
}  // namespace torch::optim

namespace troupe {

struct Trainable {
  std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>> models;
  std::vector<std::pair<std::string, std::shared_ptr<torch::optim::Optimizer>>> optimizers;
  std::vector<NamedTensor> buffers;
  std::vector<NamedTensor> own;

  Trainable() = default;
  /// One model named "model" and its optimiser named "optimizer".
  Trainable(std::shared_ptr<torch::nn::Module> model,
            std::shared_ptr<torch::optim::Optimizer> optimizer);

  /// Throws: ConfigError on an empty or repeated name, or a null pointer.
  Trainable& add_model(std::string name, std::shared_ptr<torch::nn::Module> model);
  Trainable& add_optimizer(std::string name, std::shared_ptr<torch::optim::Optimizer> optimizer);
  /// A model that is not trained: a teacher, a pretrained encoder. Its parameters are frozen
  /// (requires_grad off) and it stays in evaluation mode. To be trained later by a model's
  /// optimiser it is added as a model, and frozen by the hooks.
  Trainable& add_frozen(std::string name, std::shared_ptr<torch::nn::Module> model);
  /// A tensor of the hooks' own, which steps read and change in place: Replica::buffer(name). A
  /// buffer in every respect, like those that a module registers (docs/training_step.md, "State of
  /// one's own"): each replica has a copy, which is saved, resumed and made equal with the others.
  /// Throws: ConfigError on an empty or repeated name, or an undefined tensor.
  Trainable& add_buffer(std::string name, at::Tensor initial);
  /// A tensor that each replica has for itself, which steps change in place: Replica::buffer(name).
  /// Environments, a replay memory, what a replica has seen. It stays on the device that it was
  /// made on, is never made equal with the other replicas' and belongs to no exported model;
  /// checkpoints have it. A run that resumes with other numbers of workers or replicas begins with
  /// `initial`. Throws: as add_buffer. TrainingRun refuses it with virtual replicas, in elastic
  /// groups and with parameter servers, where a replica's share of the work moves or its state is
  /// not saved.
  Trainable& add_own(std::string name, at::Tensor initial);
};

}  // namespace troupe
