// examples/contrastive/contrastive_hooks.h -- template/my_hooks.h, filled in for SimCLR: pictures
// are told apart by comparing two views of each with those of all others of the step, on whatever
// replica they are. Labels train a linear probe alone, which shows what the encoder has learned.
// Source: Chen et al. 2020, "A simple framework for contrastive learning of visual
// representations".
// Shapes: B pictures in this replica's batch, N on all replicas.
#pragma once

#include <utility>

#include "examples/digits/example_data.h"
#include "troupe.h"

struct Encoder final : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear features{nullptr}, projection{nullptr}, probe{nullptr};

  Encoder() {
    using Conv = torch::nn::Conv2dOptions;
    first = register_module("first", torch::nn::Conv2d(Conv(1, 16, 3).stride(2)));
    second = register_module("second", torch::nn::Conv2d(Conv(16, 32, 3).stride(2)));
    features = register_module("features", torch::nn::Linear(32 * 6 * 6, 64));
    projection = register_module("projection", torch::nn::Linear(64, 32));
    probe = register_module("probe", torch::nn::Linear(64, 10));
  }

  torch::Tensor forward(torch::Tensor x) {  // [B, 1, 28, 28]
    x = torch::relu(second(torch::relu(first(x))));
    return torch::relu(features(x.flatten(1)));  // [B, 64]
  }
  torch::Tensor project(const torch::Tensor& learned) {  // [B, 64]
    return of_length(1, projection(learned));            // [B, 32]
  }
  /// Logits [B, 10], through which nothing is learned but the probe.
  torch::Tensor classify(const torch::Tensor& learned) {
    return probe(of_length(8, learned.detach()));
  }

 private:
  static torch::Tensor of_length(double length, const torch::Tensor& rows) {
    namespace F = torch::nn::functional;
    return F::normalize(rows, F::NormalizeFuncOptions().dim(1)) * length;
  }
};

/// A picture [1, 28, 28] moved, made lighter or darker, and with a square left out.
inline torch::Tensor view_of(const torch::Tensor& picture, troupe::ExampleRandom& random) {
  constexpr std::int64_t kMove = 3, kSquare = 8, kSide = 28;  // pixels
  const auto draw = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(below)));
  };
  const auto paper = picture.min();
  auto ink = torch::constant_pad_nd(picture - paper, {kMove, kMove, kMove, kMove})
                 .narrow(1, draw(2 * kMove + 1), kSide)
                 .narrow(2, draw(2 * kMove + 1), kSide) *
             random.uniform(0.6, 1.4);
  const auto row = draw(kSide - kSquare + 1);
  ink.narrow(1, row, kSquare).narrow(2, draw(kSide - kSquare + 1), kSquare).zero_();
  return ink + paper;
}

class ContrastiveHooks final : public troupe::Hooks {
 public:
  explicit ContrastiveHooks(const troupe::Options& options) : options_(options) {}

  static std::vector<troupe::Flag> flags() {
    return {troupe::flag("learning-rate"), troupe::flag("momentum"), troupe::flag("weight-decay"),
            troupe::flag("data-dir"), troupe::flag("train-examples")};
  }

  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& logits, const torch::Tensor& labels) {
               return torch::nn::functional::cross_entropy(
                   logits, labels,
                   torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
             }}};  // [B]
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::Accuracy>("probe_accuracy");
  }

  troupe::Trainable create_model() const override {
    auto encoder = std::make_shared<Encoder>();
    // The rate is that of 256 pictures, and grows with those of a step (section 2.2 there).
    const double rate =
        options_.train.learning_rate * static_cast<double>(options_.train.batch_size) / 256;
    auto sgd = std::make_shared<torch::optim::SGD>(encoder->parameters(),
                                                   torch::optim::SGDOptions(rate)
                                                       .momentum(options_.train.momentum)
                                                       .weight_decay(options_.train.weight_decay));
    return {encoder, sgd};
  }

  /// Training: two views and the label; otherwise the picture and the label.
  troupe::Splits create_datasets() const override {
    auto splits = troupe::mnist_or_digits(options_.data, /*validation_examples=*/5000);
    splits.train = troupe::transformed(
        splits.train, [](troupe::Example example, troupe::ExampleRandom& random) {
          const auto first = view_of(example[0], random);
          return troupe::Example{first, view_of(example[0], random), example[1]};
        });
    return splits;
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto [first, second, labels] = batch.unpack<3>();
    auto& encoder = replica.model<Encoder>();
    const auto learned = encoder.forward(torch::cat({first, second}));  // [2 B, 64]
    const auto views = encoder.project(learned).chunk(2);
    const auto one = replica.all_gather(views[0]);
    const auto other = replica.all_gather(views[1]);
    const auto contrast =
        replica.global_mean((contrast_of(replica, views[0], other.rows, one.rows, one.begin) +
                             contrast_of(replica, views[1], one.rows, other.rows, other.begin)) /
                            2);
    const auto probe = probe_loss(replica, learned.narrow(0, 0, labels.size(0)), labels);
    replica.apply_gradients(contrast + probe);
    return {{"contrast", contrast}, {"probe", probe}};
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto [pictures, labels] = batch.unpack<2>();
    const auto learned = replica.model<Encoder>().forward(pictures);
    return {{"probe", probe_loss(replica, learned, labels)}};
  }

  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"features", replica.model<Encoder>().forward(batch.fields[0])}};
  }

 private:
  /// How hard each of `own` [B, 32] is to tell which of the `others` [N, 32] is another view of its
  /// picture, among those and the `alike` [N, 32], views of its own kind; both begin with the own
  /// pictures at `begin`. [B]
  static torch::Tensor contrast_of(const troupe::Replica& replica, const torch::Tensor& own,
                                   const torch::Tensor& others, const torch::Tensor& alike,
                                   std::int64_t begin) {
    constexpr double kTemperature = 0.2;
    const auto places = begin + torch::arange(own.size(0), others.options().dtype(torch::kInt64));
    const auto itself = torch::one_hot(places, alike.size(0)).to(torch::kBool);
    const auto same = own.mm(alike.t()).masked_fill(itself, -1e4);  // itself is no other picture
    const auto near = torch::cat({own.mm(others.t()), same}, 1) / kTemperature;  // [B, 2 N]
    return replica.loss("cross_entropy")(near, places);
  }

  static torch::Tensor probe_loss(troupe::Replica& replica, const torch::Tensor& learned,
                                  const torch::Tensor& labels) {
    const auto logits = replica.model<Encoder>().classify(learned);
    replica.metric("probe_accuracy").update(logits, labels);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }

  const troupe::Options options_;
};
