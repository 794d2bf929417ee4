// Means with weights, over tokens and masks: W workers equal one, on every strategy.
#include <cmath>
#include <functional>
#include <utility>

#include "tests/unit/strategies/server_runs.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/data/shard_plan.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace weighted_mean_test {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test
using troupe::testing::Job;       // there is another troupe::Job

namespace {

constexpr std::int64_t kExamples = 22;
constexpr std::int64_t kLength = 5;
constexpr std::int64_t kBatch = 9;

/// Rows of 1 to 5 tokens; some examples have none, and fractions of tokens count, too.
at::Tensor all_weights() {
  const at::Tensor lengths = (torch::arange(kExamples) * 7) % 6;
  const at::Tensor mask = torch::arange(kLength).unsqueeze(0) < lengths.unsqueeze(1);
  return mask.to(torch::kFloat64) *
         (1 + (torch::arange(kExamples) % 3).unsqueeze(1).to(torch::kFloat64) / 7);
}
at::Tensor all_inputs() {
  return torch::arange(kExamples * kLength, torch::kFloat32)
      .mul(0.37)
      .sin()
      .view({kExamples, kLength});
}

/// y = w x + b for every token; the loss is a mean over tokens.
class TokenHooks : public TinyHooks {
 public:
  [[nodiscard]] LossSet create_losses() const override {
    return {{"squared_error",
             [](const at::Tensor& y, const at::Tensor& target) { return (y - target).pow(2); }}};
  }
  [[nodiscard]] MetricSet create_metrics() const override {
    return MetricSet().add<Mean>("absolute_error");
  }
  [[nodiscard]] Splits create_datasets() const override {
    const at::Tensor x = all_inputs();
    const auto all =
        std::make_shared<TensorDataset>(std::vector<at::Tensor>{x, x * 2.0 + 1.0, all_weights()});
    return {all, all, all};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    StepResult result = validation_step(replica, batch);
    replica.apply_gradients(result.losses.front().second);
    return result;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const auto [x, target, weights] = batch.unpack<3>();
    const at::Tensor y = replica.model<torch::nn::LinearImpl>().forward(x.unsqueeze(2)).squeeze(2);
    replica.metric("absolute_error").update((y - target).abs(), weights);
    return {{"loss", replica.global_mean(replica.loss("squared_error")(y, target), weights)}};
  }
};

/// A mean over tokens and one over examples in one loss.
class MixedHooks final : public TokenHooks {
 public:
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    StepResult result = TokenHooks::validation_step(replica, batch);
    const at::Tensor y =
        replica.model<torch::nn::LinearImpl>().forward(batch.fields[0].unsqueeze(2));
    const at::Tensor aside = replica.global_mean(y.square().mean({1, 2}));
    const at::Tensor tokens = result.losses.front().second;
    return {{"loss", tokens + 0.5 * aside}, {"tokens", tokens}, {"aside", aside}};
  }
};

/// No weight anywhere, now and then on a few replicas, or on all.
class EmptyHooks final : public TokenHooks {
 public:
  [[nodiscard]] Splits create_datasets() const override {
    Splits splits = TokenHooks::create_datasets();
    const at::Tensor x = all_inputs();
    const at::Tensor none = torch::zeros({kExamples, kLength});
    splits.train = std::make_shared<TensorDataset>(std::vector<at::Tensor>{x, x, none});
    return splits;
  }
};

struct Ending {
  std::vector<double> losses;  // of every step
  std::vector<double> weights;
  at::Tensor parameters;
  Report epoch, validation;
};

/// What LibTorch alone computes, on all examples of a step at once, in float64.
Ending reference(const TokenHooks& hooks, const ShardPlan& plan, std::int64_t epochs) {
  Ending ending;
  at::Tensor w = torch::tensor(0.5, torch::kFloat64);
  at::Tensor b = torch::tensor(-0.25, torch::kFloat64);
  const std::shared_ptr<const Dataset> all = hooks.create_datasets().train;
  double total = 0;
  double weight = 0;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = plan.order(epoch);
    total = weight = 0;
    for (std::int64_t begin = 0; begin < kExamples; begin += kBatch) {
      const std::vector<std::int64_t> own(order.begin() + begin,
                                          order.begin() + std::min(begin + kBatch, kExamples));
      const auto fields = all->get(torch::tensor(own));
      const at::Tensor x = fields[0].to(torch::kFloat64);
      const at::Tensor target = fields[1].to(torch::kFloat64);
      const at::Tensor error = w * x + b - target;
      const double sum = fields[2].sum().item<double>();
      const double loss = (error.square() * fields[2]).sum().item<double>();
      ending.losses.push_back(loss / sum);
      total += loss;
      weight += sum;
      w = w - 0.01 * (2 * error * x * fields[2]).sum() / sum;
      b = b - 0.01 * (2 * error * fields[2]).sum() / sum;
    }
  }
  ending.parameters = torch::stack({w, b});
  ending.epoch.losses = {{"loss", total / weight}};
  ending.epoch.weights = {{"loss", weight}};
  const at::Tensor x = all_inputs().to(torch::kFloat64);
  const at::Tensor weights = all_weights();
  const at::Tensor error = w * x + b - (2 * x + 1);
  ending.validation.losses = {
      {"loss", ((error.square() * weights).sum() / weights.sum()).item<double>()}};
  ending.validation.weights = {{"loss", weights.sum().item<double>()}};
  ending.validation.metrics = {
      {"absolute_error", ((error.abs() * weights).sum() / weights.sum()).item<double>(), {}}};
  return ending;
}

Ending train_here(Strategy& strategy, const Hooks& hooks, std::int64_t epochs = 3) {
  Ending ending;
  TrainState state = strategy.create_state(hooks, 1);
  const auto data = strategy.distribute(hooks.create_datasets(), {kBatch, 1});
  TrainOptions options;
  options.epochs = epochs;
  options.batch_size = kBatch;
  options.log_every = 1;
  options.progress = false;
  Actions actions;
  actions.push_back(std::make_unique<Losses>(ending.losses));
  const History history = train(strategy, hooks, state, data, options, {std::move(actions), {}});
  ending.epoch = history.train.value();
  if (strategy.is_chief()) ending.validation = history.validation.value();
  std::vector<at::Tensor> values;
  for (const auto& [name, parameter] : state.replicas.front()->parameters()) {
    values.push_back(parameter.detach().reshape({}).to(torch::kFloat64));
  }
  ending.parameters = torch::stack(values);
  strategy.close();
  return ending;
}

struct Run {
  int workers = 1;
  int replicas = 1;
  int accumulate = 1;
  int virtual_replicas = 0;
  double clip_norm = 0;
  StrategyKind kind = StrategyKind::automatic;
};

Ending train_as(const Run& run, const Hooks& hooks) {
  Ending ending;
  const auto port = free_port();
  run_ranks(run.workers, [&](int rank) {
    StrategyOptions options =
        run.workers == 1 ? StrategyOptions() : options_of(rank, run.workers, port);
    options.replicas = run.replicas;
    options.kind = run.kind;
    options.step.accumulate = run.accumulate;
    options.step.clip_norm = run.clip_norm;
    options.virtual_replicas = run.virtual_replicas;
    const auto strategy = run.workers == 1 && run.virtual_replicas == 0
                              ? make_strategy(options)
                              : make_multi_worker(options);
    Ending own = train_here(*strategy, hooks);
    if (rank == 0) ending = std::move(own);
  });
  return ending;
}

/// With parameter servers; the chief's.
Ending train_with_servers(const Job& job, const Hooks& hooks) {
  Ending ending;
  run_job(job, hooks, [&](int rank, Strategy& strategy) {
    Ending own = train_here(strategy, hooks);
    if (rank == 0) ending = std::move(own);
  });
  return ending;
}

ShardPlan the_plan() { return ShardPlan({kExamples, kBatch, 1, 1, troupe::shuffled()}); }

void check_steps(const Ending& ending, const Ending& expected) {
  check_near(ending.losses, expected.losses, 1e-5);
  CHECK(torch::allclose(ending.parameters, expected.parameters, 1e-5, 1e-6));
}

void check_reports(const Ending& ending, const Ending& expected) {
  for (const auto report : {&Ending::epoch, &Ending::validation}) {
    const Report& own = ending.*report;
    const Report& wanted = expected.*report;
    CHECK(own.examples == kExamples);
    CHECK(own.losses[0].second == doctest::Approx(wanted.losses[0].second).epsilon(1e-5));
    REQUIRE(own.weights.size() >= 1);
    CHECK(own.weights[0].second == doctest::Approx(wanted.weights[0].second).epsilon(1e-9));
  }
  CHECK(ending.validation.metrics[0].value ==
        doctest::Approx(expected.validation.metrics[0].value).epsilon(1e-5));
}

void check_equal(const Ending& ending, const Ending& expected) {
  check_steps(ending, expected);
  check_reports(ending, expected);
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE(
      "weighted means: any number of workers and replicas takes the steps of LibTorch alone") {
    const TokenHooks hooks;
    const Ending expected = reference(hooks, the_plan(), 3);
    check_equal(train_as({}, hooks), expected);
    check_equal(train_as({1, 3}, hooks), expected);
    check_equal(train_as({2, 1}, hooks), expected);
    check_equal(train_as({3, 2}, hooks), expected);  // the last step has examples for four replicas
    Run central{1, 2};
    central.kind = StrategyKind::central_storage;
    check_equal(train_as(central, hooks), expected);
  }

  TEST_CASE("weighted means: so do steps in parts and virtual replicas, which divide later") {
    const TokenHooks hooks;
    const Ending expected = reference(hooks, the_plan(), 3);
    check_equal(train_as({1, 1, 3}, hooks), expected);
    check_equal(train_as({1, 2, 2}, hooks), expected);
    check_equal(train_as({2, 1, 4}, hooks), expected);
    check_equal(train_as({1, 1, 1, 4}, hooks), expected);
    check_equal(train_as({2, 1, 1, 4}, hooks), expected);
    check_equal(train_as({2, 1, 2, 8}, hooks), expected);
  }

  TEST_CASE("weighted means: virtual replicas give the same bits at any width") {
    const TokenHooks hooks;
    const Ending one = train_as({1, 1, 1, 4}, hooks);
    for (const Run& run : {Run{2, 1, 1, 4}, Run{1, 2, 1, 4}, Run{2, 2, 1, 4}}) {
      const Ending other = train_as(run, hooks);
      CHECK(other.losses == one.losses);
      CHECK(other.parameters.equal(one.parameters));
      CHECK(other.epoch.losses == one.epoch.losses);
      CHECK(other.validation.losses == one.validation.losses);
    }
  }

  TEST_CASE("weighted means: what is clipped is the gradient of the mean") {
    const TokenHooks hooks;
    const Run plain{1, 1, 1, 0, 0.5};
    const Ending expected = train_as(plain, hooks);
    CHECK_FALSE(expected.parameters.allclose(train_as({}, hooks).parameters));
    check_steps(train_as({2, 1, 1, 0, 0.5}, hooks), expected);
    check_steps(train_as({1, 2, 3, 0, 0.5}, hooks), expected);
    check_steps(train_as({1, 1, 1, 4, 0.5}, hooks), expected);
  }

  TEST_CASE("weighted means: synchronous parameter servers take the same steps") {
    const TokenHooks hooks;
    const Ending expected = reference(hooks, the_plan(), 3);
    Job alone = synchronous(1, 2);
    check_equal(train_with_servers(alone, hooks), expected);
    for (const int replicas : {1, 2}) {
      Job job = synchronous(2, 2);
      job.replicas = replicas;
      job.step.accumulate = 3 - replicas;
      const Ending ending = train_with_servers(job, hooks);
      CHECK(torch::allclose(ending.parameters, expected.parameters, 1e-5, 1e-6));
      // The chief alone validates, everything; what it says of training are its own tokens.
      CHECK(ending.validation.losses[0].second ==
            doctest::Approx(expected.validation.losses[0].second).epsilon(1e-5));
      CHECK(ending.validation.weights[0].second ==
            doctest::Approx(expected.validation.weights[0].second));
      CHECK(ending.epoch.weights[0].second < expected.epoch.weights[0].second);
    }
  }

  TEST_CASE("weighted means: an asynchronous worker divides by its own tokens") {
    const TokenHooks hooks;
    const Ending expected = reference(hooks, the_plan(), 3);
    for (const std::int64_t parts : {1, 3}) {
      Job job = asynchronous(1, 1);
      job.step.accumulate = parts;
      check_equal(train_with_servers(job, hooks), expected);
    }
  }

  TEST_CASE("weighted means: other means beside them in one loss, where they are divided at once") {
    const MixedHooks hooks;
    const Ending expected = train_as({}, hooks);
    CHECK(expected.epoch.losses[1].second != doctest::Approx(expected.epoch.losses[0].second));
    for (const Run& run : {Run{1, 3}, Run{2, 1}}) {
      const Ending ending = train_as(run, hooks);
      check_steps(ending, expected);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(ending.epoch.losses[i].second ==
              doctest::Approx(expected.epoch.losses[i].second).epsilon(1e-5));
      }
      REQUIRE(ending.epoch.weights.size() == 1);  // the sum of both kinds counts by examples
      CHECK(ending.epoch.weights[0].first == "tokens");
    }
    CHECK_THROWS_WITH((void)train_as({1, 1, 2}, hooks), doctest::Contains("examples and weights"));
    CHECK_THROWS_WITH((void)train_as({1, 1, 1, 4}, hooks),
                      doctest::Contains("leave out --accumulate, --virtual-replicas"));
  }

  TEST_CASE("weighted means: where nothing has weight the mean is 0, and no parameter moves") {
    const EmptyHooks hooks;
    for (const Run& run : {Run{}, Run{2, 1}, Run{1, 2, 2}, Run{1, 1, 1, 4}}) {
      const Ending ending = train_as(run, hooks);
      CHECK(ending.losses == std::vector<double>(ending.losses.size(), 0.0));
      CHECK(ending.parameters.equal(torch::tensor({0.5, -0.25}, torch::kFloat64)));
      CHECK(ending.epoch.losses[0].second == 0);
      CHECK(ending.epoch.weights[0].second == 0);
      CHECK(ending.validation.losses[0].second > 0);
    }
  }
}

}  // namespace weighted_mean_test
