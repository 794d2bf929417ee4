// examples/gan/networks.h -- two small networks that learn from each other: one draws digits, the
// other tells drawn from real. Convolutions with strides, no pooling.
// Source: Radford, Metz and Chintala 2015, "Unsupervised representation learning with deep
// convolutional generative adversarial networks"; Goodfellow et al. 2014.
// Shapes: B pictures, Z numbers of noise, W the width.
#pragma once

#include <cstdint>

#include "troupe.h"

/// Noise to pictures, -1 black to 1 white.
struct Generator final : torch::nn::Module {
  torch::nn::Sequential layers;

  Generator(std::int64_t noise_size, std::int64_t width) {
    using namespace torch::nn;
    const auto doubled = [](std::int64_t in, std::int64_t out) {  // twice the height and width
      return ConvTranspose2d(ConvTranspose2dOptions(in, out, 4).stride(2).padding(1));
    };
    layers = register_module("layers", Sequential(Linear(noise_size, 2 * width * 7 * 7),
                                                  Unflatten(UnflattenOptions(1, {2 * width, 7, 7})),
                                                  BatchNorm2d(2 * width), ReLU(),  // [B, 2 W, 7, 7]
                                                  doubled(2 * width, width), BatchNorm2d(width),
                                                  ReLU(),                       // [B, W, 14, 14]
                                                  doubled(width, 1), Tanh()));  // [B, 1, 28, 28]
  }

  torch::Tensor forward(torch::Tensor noise) { return layers->forward(noise); }  // from [B, Z]
};

/// Pictures to one number each: above 0 for one that looks real. No batch normalisation: real and
/// drawn pictures come in batches of their own, and would be told apart by that.
struct Discriminator final : torch::nn::Module {
  torch::nn::Sequential layers;

  explicit Discriminator(std::int64_t width) {
    using namespace torch::nn;
    const auto halved = [](std::int64_t in, std::int64_t out) {
      return Conv2d(Conv2dOptions(in, out, 4).stride(2).padding(1));
    };
    const auto leaky = [] { return LeakyReLU(LeakyReLUOptions().negative_slope(0.2)); };
    layers =
        register_module("layers", Sequential(halved(1, width), leaky(),          // [B, W, 14, 14]
                                             halved(width, 2 * width), leaky(),  // [B, 2 W, 7, 7]
                                             Flatten(), Linear(2 * width * 7 * 7, 1)));
  }

  torch::Tensor forward(torch::Tensor pictures) {  // [B, 1, 28, 28]
    return layers->forward(pictures).squeeze(1);   // [B]
  }
};
