// Replicas in one process, alone and in each worker of a group.
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/data/shard_plan.h"
#include "troupe/strategies/kinds/one_process.h"
#include "troupe/strategies/kinds/weight_comparison.h"

using namespace troupe::testing;  // NOLINT: a test

namespace {

constexpr std::int64_t kEpochs = 7;  // of 10 examples in batches of 4, 4 and 2: 21 steps

Outcome train_mirrored(int replicas, const troupe::Hooks& hooks, std::int64_t epochs = 3) {
  return train_with(*troupe::make_mirrored(mirrored_options(replicas)), hooks, epochs);
}

void check_same_steps(const Outcome& outcome, const Outcome& expected) {
  check_near(outcome.losses, expected.losses, 1e-5);
  CHECK(outcome.test.examples == expected.test.examples);
  CHECK(outcome.test.losses[0].second ==
        doctest::Approx(expected.test.losses[0].second).epsilon(1e-5));
  CHECK(outcome.test.metrics[0].value ==
        doctest::Approx(expected.test.metrics[0].value).epsilon(1e-5));
}

/// Two models, an optimiser with momentum each; the second model reads the first's output.
class TwoModels final : public TinyHooks {
 public:
  explicit TwoModels(std::int64_t examples) : TinyHooks(examples) {}

  [[nodiscard]] troupe::Trainable create_model() const override {
    troupe::Trainable made;
    for (const char* name : {"left", "right"}) {
      torch::nn::Linear line(1, 1);
      const torch::NoGradGuard no_grad;
      line->weight.fill_(0.5);
      line->bias.fill_(0.125);
      made.add_model(name, line.ptr());
      made.add_optimizer(
          name, std::make_shared<torch::optim::SGD>(line->parameters(),
                                                    torch::optim::SGDOptions(0.01).momentum(0.9)));
    }
    return made;
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto [left, right] = losses_of(replica, batch);
    replica.apply_gradients(left, "left");
    replica.apply_gradients(losses_of(replica, batch).second, "right");
    return {{"left", left}, {"right", right}};
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto [left, right] = losses_of(replica, batch);
    replica.metric("absolute_error").update(batch.fields[0]);
    return {{"left", left}, {"right", right}};
  }

 private:
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> losses_of(troupe::Replica& replica,
                                                            const troupe::Batch& batch) const {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<torch::nn::LinearImpl>("left").forward(x);
    const auto z = replica.model<torch::nn::LinearImpl>("right").forward(y);
    const auto& loss = replica.loss("squared_error");
    return {replica.global_mean(loss(y, target)), replica.global_mean(loss(z, target))};
  }
};

struct BufferNet final : torch::nn::Module {
  torch::Tensor mean = register_buffer("mean", torch::zeros({2}));
  torch::Tensor count = register_buffer("count", torch::zeros({1}, torch::kInt64));
};

class WithBuffers final : public TinyHooks {
 public:
  [[nodiscard]] troupe::Trainable create_model() const override {
    return troupe::Trainable().add_model("model", std::make_shared<BufferNet>());
  }
};

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("mirrored: replicas, workers and both at once take the steps of one device") {
    // The last batch of an epoch has 2 examples: with three replicas and more, some have none.
    const TinyHooks hooks(10);
    const Outcome alone = train_with(*troupe::make_one_device({}), hooks, kEpochs);
    REQUIRE(alone.losses.size() == 21);
    for (const int replicas : {1, 2, 3, 4, 7}) {
      CAPTURE(replicas);
      check_same_steps(train_mirrored(replicas, hooks, kEpochs), alone);
    }
    for (const auto& layout : {std::pair(4, 1), {2, 2}, {2, 3}}) {
      const auto workers = layout.first;
      const auto replicas = layout.second;
      CAPTURE(workers);
      CAPTURE(replicas);
      for (const auto& outcome : train_on(workers, hooks, replicas, kEpochs)) {
        check_same_steps(outcome, alone);
      }
    }
  }

  TEST_CASE("mirrored: two models with an optimiser each take the steps of one device") {
    const TwoModels hooks(10);
    const Outcome alone = train_with(*troupe::make_one_device({}), hooks, kEpochs);
    for (const int replicas : {2, 4})
      check_same_steps(train_mirrored(replicas, hooks, kEpochs), alone);
    check_same_steps(train_on(2, hooks, 2, kEpochs)[1], alone);
    CHECK(alone.losses.back() < alone.losses.front());
  }

  TEST_CASE("mirrored: a run repeats bit for bit, whichever thread is first") {
    const TwoModels hooks(10);
    const Outcome once = train_mirrored(3, hooks, kEpochs);
    for (int again = 0; again < 5; ++again) {
      const Outcome now = train_mirrored(3, hooks, kEpochs);
      CHECK(now.hash == once.hash);
      CHECK(now.losses == once.losses);
    }
  }

  TEST_CASE("mirrored: losses of replicas add up to the loss of one device") {
    class Times final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Linear line(torch::nn::LinearOptions(1, 1).bias(false));
        const torch::NoGradGuard no_grad;
        line->weight.fill_(1);
        return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 1.0)};
      }
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        auto& line = replica.model<torch::nn::LinearImpl>();
        const auto loss = replica.global_mean(line.forward(batch.fields[0]).squeeze(1));
        replica.apply_gradients(loss);
        return loss;
      }
    };
    const Times hooks;
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    auto state = strategy->create_state(hooks, 1);
    troupe::DistributedBatch batch;
    batch.global_examples = 4;
    batch.replicas = {{{torch::tensor({{2.0F}, {3.0F}})}, 4, false},
                      {{torch::tensor({{4.0F}, {5.0F}})}, 4, false}};
    const auto results = strategy->run(
        [&](auto& replica, const auto& b) { return hooks.train_step(replica, b); }, state, batch);
    CHECK(results[0].losses[0].second.item<float>() == 1.25F);
    CHECK(results[1].losses[0].second.item<float>() == 2.25F);
    CHECK(strategy->reduce(results)[0].second == 3.5);
    for (const auto& replica : state.replicas) {
      CHECK(replica->parameters()[0].second.item<float>() ==
            doctest::Approx(1 - 3.5).epsilon(1e-6));
    }
  }

  TEST_CASE("mirrored: a batch is divided over the replicas of one process") {
    using Steps = std::vector<std::vector<std::vector<float>>>;  // by step, by replica
    const auto shares = [](std::int64_t examples, int replicas) {
      const auto strategy = troupe::make_mirrored(mirrored_options(replicas));
      const auto x = torch::arange(examples, torch::kFloat32);
      const auto all = std::make_shared<troupe::TensorDataset>(std::vector<at::Tensor>{x});
      const auto data = strategy->distribute({nullptr, all, nullptr}, {4, 1});
      Steps steps;
      for (const auto& batch : data.validation->epoch(0)) {
        steps.emplace_back();
        for (const auto& replica : batch.replicas) {
          const auto field = replica.fields[0].contiguous();
          const auto* begin = field.data_ptr<float>();
          steps.back().emplace_back(begin, begin + (replica.stand_in ? 0 : field.numel()));
        }
      }
      return steps;
    };
    CHECK(shares(6, 2) == Steps{{{0, 1}, {2, 3}}, {{4}, {5}}});
    CHECK(shares(4, 5) == Steps{{{0}, {1}, {2}, {3}, {}}});
    CHECK(shares(8, 3) == Steps{{{0, 1}, {2, 3}, {}}, {{4, 5}, {6, 7}, {}}});
  }

  TEST_CASE("mirrored: a global batch that does not divide is shared unevenly, not refused") {
    const auto shares = [](std::int64_t batch) {
      const troupe::ShardPlan plan({batch, batch, 4, 1, troupe::sequential()});
      std::vector<std::int64_t> counts;
      for (int replica = 0; replica < 4; ++replica) counts.push_back(plan.share(0, replica).count);
      return counts;
    };
    CHECK(shares(32) == std::vector<std::int64_t>{8, 8, 8, 8});
    CHECK(shares(30) == std::vector<std::int64_t>{8, 8, 8, 6});
  }

  TEST_CASE("mirrored: all replicas hold the same bits after training, and another is named") {
    const TinyHooks hooks(10);
    const auto strategy = troupe::make_mirrored(mirrored_options(3));
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
    (void)troupe::train(*strategy, hooks, state, data, {});
    const auto first = troupe::parameter_hash(*state.replicas[0]);
    for (const auto& replica : state.replicas) CHECK(troupe::parameter_hash(*replica) == first);
    CHECK(troupe::common_parameter_hash(*strategy, state) == first);
    const torch::NoGradGuard no_grad;
    state.replicas[2]->parameters()[0].second.add_(1e-3);
    CHECK_THROWS_WITH_AS((void)troupe::common_parameter_hash(*strategy, state),
                         doctest::Contains("the weights of replica 2 differ from those of the "
                                           "others, first in \"weight\"."),
                         troupe::WeightsDiffer);
  }

  TEST_CASE("mirrored: the first replica's weights are everybody's from the start") {
    class OwnStarts final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        auto made = TinyHooks::create_model();
        const torch::NoGradGuard no_grad;
        for (auto& parameter : made.models[0].second->parameters()) parameter.fill_(++made_);
        return made;
      }

     private:
      mutable int made_ = 0;
    };
    const auto strategy = troupe::make_mirrored(mirrored_options(3));
    const auto state = strategy->create_state(OwnStarts(), 1);
    for (const auto& replica : state.replicas) {
      CHECK(replica->parameters()[0].second.item<float>() == 1);
    }
  }

  TEST_CASE("mirrored: models that differ between replicas are refused, the tensor named") {
    class Growing final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Linear line(1, ++made_);
        return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.01)};
      }

     private:
      mutable int made_ = 0;
    };
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    CHECK_THROWS_WITH_AS(
        (void)strategy->create_state(Growing(), 1),
        doctest::Contains("replica 1 differs from replica 0's: weight Float [2, 1]"),
        troupe::ConfigError);
  }

  TEST_CASE("mirrored: buffers become the mean over replicas and workers, counters the chief's") {
    const auto fill = [](troupe::TrainState& state) {
      for (auto& replica : state.replicas) {
        const int index = replica->place().index;
        replica->model<BufferNet>().mean.fill_(static_cast<double>(index));
        replica->model<BufferNet>().count.fill_(10 + index);
      }
    };
    const auto is_mean = [](troupe::TrainState& state, float mean) {
      for (auto& replica : state.replicas) {
        auto& net = replica->model<BufferNet>();
        if (net.mean[1].item<float>() != mean) return false;
        if (net.count.item<std::int64_t>() != 10) return false;
      }
      return true;
    };
    const auto strategy = troupe::make_mirrored(mirrored_options(3));
    auto state = strategy->create_state(WithBuffers(), 1);
    fill(state);
    strategy->synchronize_buffers(state);
    CHECK(is_mean(state, 1));

    for (const int replicas : {1, 2}) {
      run_workers(
          3,
          [&](int, troupe::Strategy& group) {
            auto shared = group.create_state(WithBuffers(), 1);
            fill(shared);
            group.synchronize_buffers(shared);
            if (!is_mean(shared, replicas == 1 ? 1 : 2.5)) throw std::runtime_error("no mean");
            group.close();
          },
          [&](auto& options) { options.replicas = replicas; });
    }
  }

  TEST_CASE(
      "mirrored: a parameter that one replica used learns on all, as it would on one device") {
    const auto used = train_mirrored(2, SideOfOne());
    CHECK(used.hash == train_on(2, SideOfOne())[0].hash);  // two addends: the order is the same
    CHECK(used.hash != train_mirrored(2, SideLayer()).hash);
    CHECK_NOTHROW((void)train_mirrored(3, CheckSide()));
  }

  TEST_CASE("mirrored: one strategy trains one model after the other") {
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    const auto first = train_with(*strategy, TwoModels(10));
    const auto other = train_with(*strategy, TinyHooks(10));
    CHECK(train_with(*strategy, TwoModels(10)).hash == first.hash);
    CHECK(train_with(*strategy, TinyHooks(10)).hash == other.hash);
  }
}
