// examples/transformer/transformer.h -- a small transformer that predicts the next character.
// Shapes: B lines of a batch, T places in the longest, D numbers for a place, H heads.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "troupe.h"

/// Attention of every place to itself and those before it, and a network of two layers, each added
/// to what comes in, which is normalised first.
class TransformerBlock final : public torch::nn::Module {
 public:
  TransformerBlock(std::int64_t width, std::int64_t heads) : heads_(heads) {
    attention_norm_ =
        register_module("attention_norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}));
    queries_keys_values_ =
        register_module("queries_keys_values", torch::nn::Linear(width, 3 * width));
    attention_out_ = register_module("attention_out", torch::nn::Linear(width, width));
    hidden_norm_ =
        register_module("hidden_norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}));
    hidden_ = register_module("hidden", torch::nn::Linear(width, 4 * width));
    hidden_out_ = register_module("hidden_out", torch::nn::Linear(4 * width, width));
  }

  /// Shapes: x [B, T, D], hidden from [B, 1, T, T], true where a place must not look; to x's.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& hidden_from) {
    const torch::Tensor after = x + attention(attention_norm_(x), hidden_from);
    return after + hidden_out_(torch::gelu(hidden_(hidden_norm_(after))));
  }

 private:
  torch::Tensor attention(const torch::Tensor& x, const torch::Tensor& hidden_from) {
    const auto parts = queries_keys_values_(x).chunk(3, /*dim=*/2);
    const auto by_head = [&](const torch::Tensor& part) {  // [B, H, T, D / H]
      return part.view({part.size(0), part.size(1), heads_, -1}).transpose(1, 2);
    };
    const auto keys = by_head(parts[1]);
    const double scale = 1 / std::sqrt(static_cast<double>(keys.size(3)));
    const auto scores = by_head(parts[0]).matmul(keys.transpose(2, 3)) * scale;  // [B, H, T, T]
    const auto seen = scores.masked_fill(hidden_from, -1e9).softmax(-1).matmul(by_head(parts[2]));
    return attention_out_(seen.transpose(1, 2).contiguous().view_as(x));
  }

  std::int64_t heads_;
  torch::nn::LayerNorm attention_norm_{nullptr}, hidden_norm_{nullptr};
  torch::nn::Linear queries_keys_values_{nullptr}, attention_out_{nullptr}, hidden_{nullptr},
      hidden_out_{nullptr};
};

class Transformer final : public torch::nn::Module {
 public:
  Transformer(std::int64_t tokens, std::int64_t longest, std::int64_t width, std::int64_t heads,
              std::int64_t blocks) {
    token_ = register_module("token", torch::nn::Embedding(tokens, width));
    place_ = register_module("place", torch::nn::Embedding(longest, width));
    for (std::int64_t i = 0; i < blocks; ++i) {
      blocks_.push_back(register_module("block" + std::to_string(i),
                                        std::make_shared<TransformerBlock>(width, heads)));
    }
    norm_ = register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}));
    out_ = register_module("out", torch::nn::Linear(width, tokens));
  }

  /// Shapes: tokens [B, T] int64; mask [B, T] bool, false at padding; logits [B, T, tokens].
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& mask) {
    const auto places = torch::arange(tokens.size(1), tokens.options());
    const auto later = places.unsqueeze(0) > places.unsqueeze(1);       // [T, T]
    const auto padding = mask.logical_not().unsqueeze(1).unsqueeze(2);  // [B, 1, 1, T]
    const auto hidden_from = later.logical_or(padding);
    torch::Tensor x = token_(tokens) + place_(places);
    for (const auto& block : blocks_) x = block->forward(x, hidden_from);
    return out_(norm_(x));
  }

 private:
  torch::nn::Embedding token_{nullptr}, place_{nullptr};
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear out_{nullptr};
};
