// examples/resnet/resnet_hooks.h -- template/my_hooks.h, filled in for a residual network on
// CIFAR-10 or on generated shapes.
// Shapes: B pictures in this replica's batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/digits/example_data.h"
#include "examples/resnet/augment.h"
#include "examples/resnet/resnet.h"
#include "troupe.h"
#include "troupe/data/formats/cifar.h"

struct ResNetOptions {
  std::int64_t width = 16;
  bool augment = true;
  std::string norm = "batch";  // batch | sync

  std::vector<troupe::Flag> flags() {
    return {
        troupe::flag("learning-rate"),
        troupe::flag("momentum"),
        troupe::flag("weight-decay"),
        troupe::flag("data-dir"),
        troupe::flag("train-examples"),
        troupe::flag("width", &width, "channels of the first stage; ResNet-18 has 64", {1, 4096}),
        troupe::flag("augment", &augment, "move and mirror training pictures at random"),
        troupe::flag("norm", &norm,
                     "batch: over the pictures of a replica; sync: of all replicas")};
  }
};

class ResNetHooks final : public troupe::Hooks {
 public:
  ResNetHooks(const troupe::Options& options, const ResNetOptions& mine)
      : options_(options), mine_(mine) {
    if (mine.norm == "batch" || mine.norm == "sync") return;
    throw troupe::ConfigError("--norm is \"" + mine.norm + "\".", "give batch or sync.");
  }

  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& logits, const torch::Tensor& labels) {
               return torch::nn::functional::cross_entropy(
                   logits, labels,
                   torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
             }}};  // [B]
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("accuracy").add<troupe::TopK>("top_3", 3);
  }

  troupe::Trainable create_model() const override {
    auto net = std::make_shared<ResNet>(mine_.width, troupe::kCifarClasses,
                                        mine_.norm == "sync" ? sync_batch_norm : batch_norm);
    auto sgd = std::make_shared<torch::optim::SGD>(
        net->parameters(), torch::optim::SGDOptions(options_.train.learning_rate)
                               .momentum(options_.train.momentum)
                               .weight_decay(options_.train.weight_decay));
    return {net, sgd};
  }

  troupe::Splits create_datasets() const override {
    return troupe::cifar10_or_shapes(options_.data, /*validation_examples=*/5000);
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto [pictures, labels] = batch.unpack<2>();
    const auto loss = forward(replica, mine_.augment ? shift_and_flip(pictures) : pictures, labels);
    replica.apply_gradients(loss);
    return loss;
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto [pictures, labels] = batch.unpack<2>();
    return forward(replica, pictures, labels);
  }

  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"logits", replica.model<ResNet>().forward(batch.fields[0])}};
  }

 private:
  /// Over the pictures of one replica in a step.
  static torch::nn::AnyModule batch_norm(std::int64_t channels) {
    return torch::nn::AnyModule(torch::nn::BatchNorm2d(channels));
  }
  /// Over the pictures of all replicas in a step; parameters and buffers of the same names.
  static torch::nn::AnyModule sync_batch_norm(std::int64_t channels) {
    return torch::nn::AnyModule(troupe::SyncBatchNorm(torch::nn::BatchNormOptions(channels)));
  }

  static torch::Tensor forward(troupe::Replica& replica, const torch::Tensor& pictures,
                               const torch::Tensor& labels) {
    const auto logits = replica.model<ResNet>().forward(pictures);  // [B, 10]
    replica.metric("accuracy").update(logits, labels);
    replica.metric("top_3").update(logits, labels);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }

  const troupe::Options options_;
  const ResNetOptions mine_;
};
