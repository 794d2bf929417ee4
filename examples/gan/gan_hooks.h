// examples/gan/gan_hooks.h -- template/my_hooks.h, filled in for two networks with an optimiser
// each: a step updates the discriminator, then the generator.
// Shapes: B pictures in this replica's batch, Z numbers of noise for each.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/digits/example_data.h"
#include "examples/gan/networks.h"
#include "troupe.h"

struct GanOptions {
  std::int64_t noise_size = 64;
  std::int64_t width = 32;
  double generator_learning_rate = 1e-3;
  double discriminator_learning_rate = 5e-4;
  std::string samples_dir;

  std::vector<troupe::Flag> flags() {
    return {
        troupe::flag("data-dir"),
        troupe::flag("train-examples"),
        troupe::flag("noise-size", &noise_size, "numbers that a picture is drawn from", {1, 65536}),
        troupe::flag("width", &width, "channels of the networks' widest pictures", {1, 4096}),
        troupe::flag("generator-learning-rate", &generator_learning_rate, "of its Adam"),
        troupe::flag("discriminator-learning-rate", &discriminator_learning_rate, "of its Adam"),
        troupe::flag("samples-dir", &samples_dir,
                     "where pictures go, step-N.png (default: samples in --model-dir)")};
  }
};

/// `count` x Z numbers of noise, the same for the same seed: from a generator of their own, so that
/// no random stream of training moves.
inline torch::Tensor fixed_noise(std::int64_t count, std::int64_t noise_size, std::uint64_t seed) {
  return torch::randn({count, noise_size}, at::detail::createCPUGenerator(seed));
}

/// The pictures of a data set of digits, from -1 to 1, and before them noise where it is given.
class PictureDataset final : public troupe::Dataset {
 public:
  /// Shapes: noise [N, Z] or undefined.
  explicit PictureDataset(std::shared_ptr<const troupe::Dataset> digits, torch::Tensor noise = {})
      : digits_(std::move(digits)), noise_(std::move(noise)) {}

  [[nodiscard]] std::int64_t size() const override { return digits_->size(); }
  /// Fields: noise [B, Z] where it was given, then pictures [B, 1, 28, 28].
  [[nodiscard]] std::vector<torch::Tensor> get(const torch::Tensor& indices) const override {
    // load_mnist's (x / 255 - 0.1307) / 0.3081, undone, and from [0, 1] to [-1, 1].
    auto pictures = digits_->get(indices).front().mul_(2 * 0.3081).add_(2 * 0.1307 - 1);
    if (!noise_.defined()) return {std::move(pictures)};
    return {noise_.index_select(0, indices), std::move(pictures)};
  }

 private:
  std::shared_ptr<const troupe::Dataset> digits_;
  torch::Tensor noise_;
};

class GanHooks final : public troupe::Hooks {
 public:
  GanHooks(const troupe::Options& options, const GanOptions& mine)
      : options_(options), mine_(mine) {}

  /// How wrong the discriminator's scores [B] are where the pictures are real (1) or drawn (0).
  troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const torch::Tensor& scores, const torch::Tensor& targets) {
               return torch::binary_cross_entropy_with_logits(scores, targets, {}, {},
                                                              at::Reduction::None);
             }}};
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet()
        .add<troupe::Mean>("taken_for_real")  // drawn pictures that were, 0 to 1
        .add<troupe::Mean>("ink_gap");        // pixel by pixel, in the mean of a batch; 0 to 2
  }

  troupe::Trainable create_model() const override {
    auto generator = std::make_shared<Generator>(mine_.noise_size, mine_.width);
    auto discriminator = std::make_shared<Discriminator>(mine_.width);
    const auto adam = [](const torch::nn::Module& network, double learning_rate) {
      return std::make_shared<torch::optim::Adam>(
          network.parameters(), torch::optim::AdamOptions(learning_rate).betas({0.5, 0.999}));
    };
    return troupe::Trainable()
        .add_model("generator", generator)
        .add_model("discriminator", discriminator)
        .add_optimizer("generator", adam(*generator, mine_.generator_learning_rate))
        .add_optimizer("discriminator", adam(*discriminator, mine_.discriminator_learning_rate));
  }

  troupe::Splits create_datasets() const override {
    const troupe::Splits digits =
        troupe::mnist_or_digits(options_.data, /*validation_examples=*/1000);
    const auto drawn_from = [&](const std::shared_ptr<const troupe::Dataset>& split) {
      return std::make_shared<PictureDataset>(
          split, fixed_noise(split->size(), mine_.noise_size, /*seed=*/1));
    };
    return {std::make_shared<PictureDataset>(digits.train), drawn_from(digits.validation),
            drawn_from(digits.test)};
  }

  /// The noise comes from LibTorch's generator, of which every replica has its own stream: a run
  /// that is continued draws what the run that was not stopped draws.
  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto& pictures = batch.fields.back();
    const auto noise =
        torch::randn({pictures.size(0), mine_.noise_size}, pictures.options());  // [B, Z]
    const auto drawn = replica.model<Generator>("generator").forward(noise);
    // Without drawn's graph: the generator has no part in this.
    const auto discriminator_loss = told_apart(replica, pictures, drawn.detach());
    replica.apply_gradients(discriminator_loss, "discriminator");
    const auto generator_loss = taken_for_real(replica, drawn);
    replica.apply_gradients(generator_loss, "generator");
    return {{"generator", generator_loss}, {"discriminator", discriminator_loss}};
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    const auto [noise, pictures] = batch.unpack<2>();
    const auto drawn = replica.model<Generator>("generator").forward(noise);
    return {{"generator", taken_for_real(replica, drawn)},
            {"discriminator", told_apart(replica, pictures, drawn)}};
  }

  /// Noise to pictures; a function of its input alone, as an export has to be.
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"picture", replica.model<Generator>("generator").forward(batch.fields[0])}};
  }

 private:
  /// The discriminator's loss: real pictures should score high, drawn ones low.
  static torch::Tensor told_apart(troupe::Replica& replica, const torch::Tensor& pictures,
                                  const torch::Tensor& drawn) {
    auto& discriminator = replica.model<Discriminator>("discriminator");
    const auto& loss = replica.loss("cross_entropy");
    const auto on_pictures = discriminator.forward(pictures);  // [B]
    const auto on_drawn = discriminator.forward(drawn);        // [B]
    replica.metric("taken_for_real").update((on_drawn > 0).to(torch::kFloat32));
    replica.metric("ink_gap").update((drawn.detach().mean(0) - pictures.mean(0)).abs());
    // Reals count as real for nine tenths only, which keeps the discriminator from certainty.
    // Source: Salimans et al. 2016, "Improved techniques for training GANs".
    return replica.global_mean(loss(on_pictures, torch::full_like(on_pictures, 0.9)) +
                               loss(on_drawn, torch::zeros_like(on_drawn)));
  }

  /// The generator's loss: what it draws should score as real does.
  static torch::Tensor taken_for_real(troupe::Replica& replica, const torch::Tensor& drawn) {
    const auto scores = replica.model<Discriminator>("discriminator").forward(drawn);  // [B]
    return replica.global_mean(replica.loss("cross_entropy")(scores, torch::ones_like(scores)));
  }

  const troupe::Options options_;
  const GanOptions mine_;
};
