// Trainable: what create_model returns, models and optimisers by name. Usually one of each; a GAN
// has two of both.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

  Trainable() = default;
  /// One model named "model" and its optimiser named "optimizer".
  Trainable(std::shared_ptr<torch::nn::Module> model,
            std::shared_ptr<torch::optim::Optimizer> optimizer);

  /// Throws: ConfigError on an empty or repeated name, or a null pointer.
  Trainable& add_model(std::string name, std::shared_ptr<torch::nn::Module> model);
  Trainable& add_optimizer(std::string name, std::shared_ptr<torch::optim::Optimizer> optimizer);
};

}  // namespace troupe
