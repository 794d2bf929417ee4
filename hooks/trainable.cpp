#include "troupe/hooks/trainable.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "troupe/hooks/named.h"

namespace troupe {
namespace {

template <class List, class Value>
void add_named(List& list, std::string name, Value value, const char* what) {
  detail::check_new_name(list, name, what, "create_model");
  if (value == nullptr) {
    throw ConfigError(std::string(what) + " \"" + name + "\" is null.",
                      "make it before create_model returns it.");
  }
  list.emplace_back(std::move(name), std::move(value));
}

/// `other`: a list in which the name is not to be, either.
void add_tensor(std::vector<NamedTensor>& tensors, const std::vector<NamedTensor>& other,
                std::string name, at::Tensor initial) {
  detail::check_new_name(tensors, name, "buffer", "create_model");
  detail::check_new_name(other, name, "buffer", "create_model");
  if (!initial.defined()) {
    throw ConfigError("buffer \"" + name + "\" has no initial value.",
                      "add it with a tensor of the shape and type that it is to have.");
  }
  tensors.emplace_back(std::move(name), std::move(initial));
}

}  // namespace

Trainable::Trainable(std::shared_ptr<torch::nn::Module> model,
                     std::shared_ptr<torch::optim::Optimizer> optimizer) {
  add_model("model", std::move(model));
  add_optimizer("optimizer", std::move(optimizer));
}

Trainable& Trainable::add_model(std::string name, std::shared_ptr<torch::nn::Module> model) {
  add_named(models, std::move(name), std::move(model), "model");
  return *this;
}

Trainable& Trainable::add_optimizer(std::string name,
                                    std::shared_ptr<torch::optim::Optimizer> optimizer) {
  add_named(optimizers, std::move(name), std::move(optimizer), "optimizer");
  return *this;
}

Trainable& Trainable::add_frozen(std::string name, std::shared_ptr<torch::nn::Module> model) {
  add_model(std::move(name), model);
  model->eval();
  for (at::Tensor& parameter : model->parameters()) parameter.requires_grad_(false);
  return *this;
}

Trainable& Trainable::add_buffer(std::string name, at::Tensor initial) {
  add_tensor(buffers, own, std::move(name), std::move(initial));
  return *this;
}

Trainable& Trainable::add_own(std::string name, at::Tensor initial) {
  add_tensor(own, buffers, std::move(name), std::move(initial));
  return *this;
}

}  // namespace troupe
