// examples/embedding/embedding_hooks.h -- template/my_hooks.h, filled in for a recommender: large
// tables of which a step touches few rows.
// Shapes: N ratings of a data set, B in this replica's batch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/embedding/ratings.h"
#include "examples/embedding/recommender.h"
#include "troupe.h"

struct EmbeddingOptions {
  std::int64_t users = 50'000;
  std::int64_t items = 10'000;
  std::int64_t dimension = 16;
  std::int64_t ratings = 4'000'000;
  std::int64_t eval_ratings = 50'000;

  std::vector<troupe::Flag> flags() {
    const std::pair<std::int64_t, std::int64_t> many{1, 1'000'000'000};
    return {troupe::flag("learning-rate"),
            troupe::flag("train-examples"),
            troupe::flag("users", &users, "rows of the users' tables", many),
            troupe::flag("items", &items, "rows of the items' tables", many),
            troupe::flag("dimension", &dimension,
                         "numbers that are learnt of each user and item, beside a bias; 0: biases "
                         "alone",
                         {0, 65536}),
            troupe::flag("ratings", &ratings, "generated for training", many),
            troupe::flag("eval-ratings", &eval_ratings,
                         "generated for validation, and as many for the test", many)};
  }
};

class EmbeddingHooks final : public troupe::Hooks {
 public:
  /// The inputs, by the names that exported models know; the stars follow them.
  inline static const std::vector<std::string> kFeatures = {"user", "item"};

  EmbeddingHooks(const troupe::Options& options, const EmbeddingOptions& mine)
      : options_(options), mine_(mine) {}

  troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const torch::Tensor& stars, const torch::Tensor& given) {
               return (stars - given).pow(2);  // [B]
             }}};
  }

  troupe::MetricSet create_metrics() const override {
    return troupe::MetricSet().add<troupe::RootMeanSquaredError>("rmse").add<troupe::Mean>(
        "pairs_in_order");  // of two ratings, the better one is foreseen; 0 to 1
  }

  /// Adagrad: a row's own history sets its pace, so rare items learn as fast as popular ones; and
  /// with a sparse gradient it touches the rows of the batch alone.
  troupe::Trainable create_model() const override {
    auto model =
        std::make_shared<Recommender>(mine_.users, mine_.items, mine_.dimension, /*mean=*/3.5);
    auto adagrad = std::make_shared<torch::optim::Adagrad>(
        model->parameters(), torch::optim::AdagradOptions(options_.train.learning_rate));
    return {model, adagrad};
  }

  troupe::Splits create_datasets() const override {
    const std::int64_t wanted = options_.data.train_examples;  // 0: all
    const std::int64_t trained = wanted > 0 ? std::min(wanted, mine_.ratings) : mine_.ratings;
    return {dataset(0, trained), dataset(mine_.ratings, mine_.eval_ratings),
            dataset(mine_.ratings + mine_.eval_ratings, mine_.eval_ratings)};
  }

  troupe::StepResult train_step(troupe::Replica& replica,
                                const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    replica.apply_gradients(loss);
    return loss;
  }

  troupe::StepResult validation_step(troupe::Replica& replica,
                                     const troupe::Batch& batch) const override {
    return forward(replica, batch);
  }

  /// Sees users and items alone, as a served model does.
  troupe::Predictions predict_step(troupe::Replica& replica,
                                   const troupe::Batch& batch) const override {
    return {{"stars", replica.model<Recommender>().forward(batch.fields[0], batch.fields[1])}};
  }

 private:
  static torch::Tensor forward(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [user, item, given] = batch.unpack<3>();
    const auto stars = replica.model<Recommender>().forward(user, item);
    replica.metric("rmse").update(stars, given);
    replica.metric("pairs_in_order").update(in_order(stars.detach(), given));
    return replica.global_mean(replica.loss("squared_error")(stars, given));
  }

  /// Whether each rating and the one before it in the batch (the first: the last) come in the same
  /// order as foreseen, 1 or 0. Two equal ones count as in order.
  static torch::Tensor in_order(const torch::Tensor& stars, const torch::Tensor& given) {
    const auto step = [](const torch::Tensor& values) { return values - values.roll(1); };
    return (step(stars) * step(given) >= 0).to(torch::kFloat32);  // [B]
  }

  /// Fields: user int64 [N], item int64 [N], stars float32 [N].
  [[nodiscard]] std::shared_ptr<const troupe::Dataset> dataset(std::int64_t first,
                                                               std::int64_t count) const {
    const auto rows = ratings::generate({mine_.users, mine_.items, /*seed=*/1}, first, count);
    auto user = torch::empty({count}, torch::kInt64);
    auto item = torch::empty({count}, torch::kInt64);
    auto stars = torch::empty({count}, torch::kFloat32);
    for (std::int64_t i = 0; i < count; ++i) {
      const ratings::Rating& row = rows[static_cast<std::size_t>(i)];
      user.data_ptr<std::int64_t>()[i] = row.user;
      item.data_ptr<std::int64_t>()[i] = row.item;
      stars.data_ptr<float>()[i] = static_cast<float>(row.stars);
    }
    return std::make_shared<troupe::TensorDataset>(std::vector<torch::Tensor>{user, item, stars});
  }

  const troupe::Options options_;
  const EmbeddingOptions mine_;
};
