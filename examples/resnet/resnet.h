// examples/resnet/resnet.h -- ResNet-18 for pictures of 32x32 pixels: a first layer of 3x3 that
// does not shrink them, then four stages of two blocks, each twice as wide and half as high as the
// last. Source: He, Zhang, Ren and Sun 2015, "Deep residual learning for image recognition", 4.2
// for the first layer. Shapes: B pictures, W the width, C classes.
#pragma once

#include <cstdint>
#include <functional>

#include "troupe.h"

/// Makes the layer that normalises so many channels.
using MakeNorm = std::function<torch::nn::AnyModule(std::int64_t channels)>;

/// A convolution without a bias, which the normalisation behind it would take away again.
inline torch::nn::Sequential convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                         std::int64_t stride, const MakeNorm& norm) {
  torch::nn::Conv2d layer(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  torch::nn::Sequential both;
  both->push_back("conv", layer);
  both->push_back("norm", norm(out));
  return both;
}

/// Two convolutions, and what came in added to what they make of it.
struct BasicBlock final : torch::nn::Module {
  torch::nn::Sequential first, second;
  torch::nn::Sequential shortcut{nullptr};  // null where shapes agree

  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride, const MakeNorm& norm) {
    first = register_module("first", convolution(in, out, 3, stride, norm));
    second = register_module("second", convolution(out, out, 3, 1, norm));
    if (stride == 1 && in == out) return;
    shortcut = register_module("shortcut", convolution(in, out, 1, stride, norm));
  }

  torch::Tensor forward(torch::Tensor x) {
    const auto change = second->forward(torch::relu(first->forward(x)));
    return torch::relu(change + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
};

struct ResNet final : torch::nn::Module {
  torch::nn::Sequential stem{nullptr}, blocks;
  torch::nn::Linear output{nullptr};

  /// `width`: channels of the first stage; 64 is the paper's.
  ResNet(std::int64_t width, std::int64_t classes, const MakeNorm& norm) {
    stem = register_module("stem", convolution(3, width, 3, 1, norm));
    std::int64_t in = width;
    for (std::int64_t stage = 0; stage < kStages; ++stage) {
      const std::int64_t out = width << stage;
      for (std::int64_t block = 0; block < kBlocks; ++block) {
        blocks->push_back(BasicBlock(in, out, stage > 0 && block == 0 ? 2 : 1, norm));
        in = out;
      }
    }
    register_module("blocks", blocks);
    output = register_module("output", torch::nn::Linear(in, classes));
  }

  torch::Tensor forward(torch::Tensor x) {               // [B, 3, 32, 32]
    x = blocks->forward(torch::relu(stem->forward(x)));  // [B, 8 W, 4, 4]
    return output(x.mean({2, 3}));                       // [B, C] logits
  }

 private:
  static constexpr std::int64_t kStages = 4;
  static constexpr std::int64_t kBlocks = 2;  // of a stage
};
