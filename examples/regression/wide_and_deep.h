// examples/regression/wide_and_deep.h -- a linear model over crossed categories beside a small
// network over numbers, added up: the one remembers combinations, the other generalises.
// Source: Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems".
// Shapes: B examples; the features are int64 [B], as births.h has them.
#pragma once

#include <cstdint>

#include "examples/regression/births.h"
#include "troupe.h"

struct WideAndDeep final : torch::nn::Module {
  torch::nn::Embedding wide_sex{nullptr}, wide_age{nullptr}, wide_weeks{nullptr};
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear hidden{nullptr}, second{nullptr}, output{nullptr};
  torch::Tensor age_bounds, week_bounds;

  WideAndDeep(std::int64_t hidden_units, std::int64_t embedding_size) {
    using torch::nn::Linear;
    age_bounds =
        register_buffer("age_bounds", torch::tensor({18, 22, 26, 30, 34, 38, 42}, torch::kInt64));
    week_bounds =
        register_buffer("week_bounds", torch::tensor({27, 30, 32, 34, 36, 38, 40}, torch::kInt64));
    const std::int64_t crossed = (age_bounds.numel() + 1) * births::kMostPlural;
    wide_sex = add_weights("wide_sex", 2 * births::kMostPlural);
    wide_age = add_weights("wide_age", crossed);
    wide_weeks = add_weights("wide_weeks", (week_bounds.numel() + 1) * births::kMostPlural);
    embedding = register_module("embedding", torch::nn::Embedding(crossed, embedding_size));
    hidden = register_module("hidden", Linear(kNumbers + embedding_size, hidden_units));
    second = register_module("second", Linear(hidden_units, hidden_units));
    output = register_module("output", Linear(hidden_units, 1));
  }

  torch::Tensor forward(torch::Tensor is_male, torch::Tensor mother_age, torch::Tensor plurality,
                        torch::Tensor gestation_weeks) {
    // Clamped: a served model is asked about anything, and tables have ends.
    const auto sex = is_male.clamp(0, 1);
    const auto further = plurality.clamp(1, births::kMostPlural) - 1;
    // A crossed category is one number: that of its row, then of its column.
    const auto crossed = [&](const torch::Tensor& category) {
      return category * births::kMostPlural + further;
    };
    const auto ages = crossed(torch::bucketize(mother_age, age_bounds));
    const auto weeks = crossed(torch::bucketize(gestation_weeks, week_bounds));
    const auto wide = wide_sex(crossed(sex)) + wide_age(ages) + wide_weeks(weeks);  // [B, 1]

    // About mean 0 and variance 1.
    const auto numbers = torch::stack(
        {sex - 0.5, (mother_age - 30.0) / 6.0, further * 1.0, (gestation_weeks - 38.0) / 3.0},
        1);                                                         // [B, 4]
    auto deep = torch::cat({numbers, embedding(ages)}, 1);          // [B, 4 + E]
    deep = output(torch::relu(second(torch::relu(hidden(deep)))));  // [B, 1]
    return wide + deep;
  }

 private:
  static constexpr std::int64_t kNumbers = 4;

  /// One weight for each category, at first 0: a linear model of its one-hot vector.
  torch::nn::Embedding add_weights(const std::string& name, std::int64_t categories) {
    auto weights = register_module(name, torch::nn::Embedding(categories, 1));
    torch::nn::init::zeros_(weights->weight);
    return weights;
  }
};
