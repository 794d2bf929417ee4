// examples/embedding/recommender.h -- how a user would rate an item: a bias of each, and the inner
// product of a row of each from two tables.
// Source: Koren, Bell and Volinsky 2009, "Matrix factorization techniques for recommender systems".
// Shapes: B ratings, D the dimension; users and items are int64 [B].
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "troupe.h"

struct Recommender final : torch::nn::Module {
  torch::nn::Embedding user_bias{nullptr}, item_bias{nullptr};
  torch::nn::Embedding user_rows{nullptr}, item_rows{nullptr};  // null where D is 0
  double mean_stars;

  /// `mean_stars` is where every rating starts. D 0: biases alone.
  Recommender(std::int64_t users, std::int64_t items, std::int64_t dimension, double mean)
      : mean_stars(mean) {
    user_bias = add_table("user_bias", users, 1, 0);
    item_bias = add_table("item_bias", items, 1, 0);
    if (dimension == 0) return;
    // Small, so that products start near 0; not 0, where no gradient would ever move them.
    const double deviation = 0.3 / std::sqrt(static_cast<double>(dimension));
    user_rows = add_table("user_rows", users, dimension, deviation);
    item_rows = add_table("item_rows", items, dimension, deviation);
  }

  torch::Tensor forward(torch::Tensor user, torch::Tensor item) {  // [B] stars
    // Clamped: a served model is asked about anything, and tables have ends.
    user = user.clamp(0, user_bias->options.num_embeddings() - 1);
    item = item.clamp(0, item_bias->options.num_embeddings() - 1);
    auto stars = mean_stars + (user_bias(user) + item_bias(item)).squeeze(1);
    if (!user_rows.is_empty()) stars = stars + (user_rows(user) * item_rows(item)).sum(1);
    return stars;
  }

 private:
  /// Its gradient is sparse: the rows of the batch and no others.
  torch::nn::Embedding add_table(const std::string& name, std::int64_t rows, std::int64_t columns,
                                 double deviation) {
    auto table = register_module(
        name, torch::nn::Embedding(torch::nn::EmbeddingOptions(rows, columns).sparse(true)));
    torch::nn::init::normal_(table->weight, 0, deviation);
    return table;
  }
};
