// Replicas that train one copy of the variables: the steps are mirrored's, the memory is not.
#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/kinds/one_process.h"

using namespace troupe::testing;  // NOLINT: a test

namespace {

constexpr std::int64_t kCentralEpochs = 7;  // of 10 examples in batches of 4, 4 and 2: 21 steps

/// Two models in a row, each with an optimiser that has state, the second with a buffer.
class Pair final : public TinyHooks {
 public:
  Pair() : TinyHooks(10) {}

  struct Scaled final : torch::nn::Module {
    torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
    torch::Tensor seen = register_buffer("seen", torch::zeros({1}));
    torch::Tensor forward(const torch::Tensor& x) { return line(x); }
  };

  [[nodiscard]] troupe::Trainable create_model() const override {
    namespace o = torch::optim;
    torch::nn::Linear first(1, 1);
    const auto second = std::make_shared<Scaled>();
    return troupe::Trainable()
        .add_model("first", first.ptr())
        .add_model("second", second)
        .add_optimizer("adam", std::make_shared<o::Adam>(first->parameters(), o::AdamOptions(0.01)))
        .add_optimizer("momentum", std::make_shared<o::SGD>(second->parameters(),
                                                            o::SGDOptions(0.01).momentum(0.9)));
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = loss_of(replica, batch);
    replica.apply_gradients(loss, "adam");
    // Computed anew, from what the first model has become.
    replica.apply_gradients(loss_of(replica, batch), "momentum");
    const torch::NoGradGuard no_grad;
    replica.model<Scaled>("second").seen.add_(1.0 + replica.place().index);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    replica.metric("absolute_error").update(batch.fields[0].abs());
    return loss_of(replica, batch);
  }

 private:
  [[nodiscard]] static at::Tensor loss_of(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto [x, target] = batch.unpack<2>();
    const auto between = replica.model<torch::nn::LinearImpl>("first").forward(x);
    const auto y = replica.model<Scaled>("second").forward(between);
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }
};

std::unique_ptr<troupe::Strategy> central(int replicas) {
  return troupe::make_central_storage(mirrored_options(replicas));
}

/// How many parameters the replica's optimisers keep something for.
std::size_t optimizer_states(troupe::Replica& replica) {
  std::size_t states = 0;
  for (const auto& name : replica.optimizer_names()) {
    states += replica.optimizer(name).state().size();
  }
  return states;
}

/// Trains on `state` up to the options' last step.
void go_on(troupe::Strategy& strategy, troupe::TrainState& state,
           const troupe::TrainOptions& options) {
  const Pair hooks;
  const auto data = strategy.distribute(hooks.create_datasets(), {options.batch_size, 1});
  (void)troupe::train(strategy, hooks, state, data, options);
}

void check_one_copy(const troupe::TrainState& state) {
  const auto expected = state.replicas.front()->parameters();
  CHECK(optimizer_states(*state.replicas.front()) == expected.size());
  for (std::size_t i = 1; i < state.replicas.size(); ++i) {
    CAPTURE(i);
    CHECK(optimizer_states(*state.replicas[i]) == 0);
    const auto own = state.replicas[i]->parameters();
    REQUIRE(own.size() == expected.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
      CHECK(own[k].second.data_ptr() == expected[k].second.data_ptr());
      CHECK_FALSE(own[k].second.is_same(expected[k].second));
    }
  }
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("central storage: the steps are mirrored's, bit for bit") {
    for (const int replicas : {1, 2, 3, 4, 7}) {
      CAPTURE(replicas);
      const auto mirrored = troupe::make_mirrored(mirrored_options(replicas));
      const Outcome expected = train_with(*mirrored, Pair(), kCentralEpochs);
      const Outcome outcome = train_with(*central(replicas), Pair(), kCentralEpochs);
      CHECK(outcome.hash == expected.hash);
      CHECK(outcome.losses == expected.losses);
      CHECK(outcome.test.losses == expected.test.losses);
      CHECK(outcome.test.metrics[0].value == expected.test.metrics[0].value);
    }
  }

  TEST_CASE("central storage: the steps are those of one device") {
    const Outcome alone = train_with(*troupe::make_one_device({}), Pair(), kCentralEpochs);
    REQUIRE(alone.losses.size() == 21);
    CHECK(alone.losses.back() < alone.losses.front());
    for (const int replicas : {1, 2, 3, 4, 7}) {
      CAPTURE(replicas);
      const Outcome outcome = train_with(*central(replicas), Pair(), kCentralEpochs);
      REQUIRE(outcome.losses.size() == alone.losses.size());
      for (std::size_t i = 0; i < alone.losses.size(); ++i) {
        CHECK(outcome.losses[i] == doctest::Approx(alone.losses[i]).epsilon(1e-5));
      }
      CHECK(outcome.test.losses[0].second ==
            doctest::Approx(alone.test.losses[0].second).epsilon(1e-5));
    }
  }

  TEST_CASE("central storage: parameters and optimiser state are there once, buffers per replica") {
    const auto strategy = central(3);
    auto state = strategy->create_state(Pair(), 1);
    go_on(*strategy, state, quiet_options(2));
    check_one_copy(state);
    // synchronize_buffers, at the end of training, has made the mean of 2, 4 and 6 of them all.
    std::vector<void*> buffers;
    for (const auto& replica : state.replicas) {
      const at::Tensor seen = replica->buffers()[0].second;
      CHECK(seen.item<float>() == 4);
      buffers.push_back(seen.data_ptr());
    }
    CHECK(buffers[0] != buffers[1]);
    CHECK(buffers[1] != buffers[2]);
    // Mirrored, for comparison, keeps everything for each.
    const auto mirrored = troupe::make_mirrored(mirrored_options(3));
    auto each = mirrored->create_state(Pair(), 1);
    go_on(*mirrored, each, quiet_options(2));
    CHECK(optimizer_states(*each.replicas[2]) == 4);
  }

  TEST_CASE("central storage: what is restored is there once, too") {
    const troupe::testing::TempDir dir;
    auto options = quiet_options(3);
    options.model_dir = dir.path().string();
    for (const std::int64_t last_step : {3, 6}) {
      options.max_steps = last_step;
      const auto strategy = central(3);
      auto state = strategy->create_state(Pair(), 1);
      go_on(*strategy, state, options);
      CHECK(state.step == last_step);
      check_one_copy(state);
    }
  }

  TEST_CASE("central storage: a replica with memory of its own is given every step's values") {
    // As on another device.
    const auto train_some = [](const std::vector<std::size_t>& elsewhere) {
      const auto strategy = central(3);
      auto state = strategy->create_state(Pair(), 1);
      for (const std::size_t replica : elsewhere) {
        for (auto& [name, parameter] : state.replicas[replica]->parameters()) {
          parameter.set_data(parameter.detach().clone());
        }
      }
      go_on(*strategy, state, quiet_options(20));
      for (const std::size_t replica : elsewhere) {
        CHECK(optimizer_states(*state.replicas[replica]) == 0);
        CHECK(state.replicas[replica]->parameters()[0].second.data_ptr() !=
              state.replicas[0]->parameters()[0].second.data_ptr());
      }
      return troupe::common_parameter_hash(*strategy, state);
    };
    const std::string expected = train_some({});
    CHECK(train_some({1}) == expected);
    CHECK(train_some({1, 2}) == expected);
  }

  TEST_CASE("central storage: a run repeats bit for bit, whichever thread is first") {
    const Outcome once = train_with(*central(4), Pair(), kCentralEpochs);
    for (int again = 0; again < 5; ++again) {
      CHECK(train_with(*central(4), Pair(), kCentralEpochs).hash == once.hash);
    }
  }

  TEST_CASE("central storage: an optimiser that fails is the run's failure, and nothing hangs") {
    class Failing final : public TinyHooks {
     public:
      struct Optimizer final : torch::optim::SGD {
        using SGD::SGD;
        torch::Tensor step(LossClosure) override {
          throw troupe::DataError("the optimiser gave up.", "ask it why.");
        }
      };
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Linear line(1, 1);
        return {line.ptr(), std::make_shared<Optimizer>(line->parameters(), 0.01)};
      }
    };
    CHECK_THROWS_WITH_AS((void)train_with(*central(3), Failing()),
                         doctest::Contains("the optimiser gave up"), troupe::DataError);
  }

  TEST_CASE("central storage: gradients that are not finite leave the one copy as it was") {
    class Infinite final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = forward(replica, batch);
        replica.apply_gradients(replica.place().index == 1 ? loss / 0.0 : loss);
        return loss;
      }
    };
    const Infinite hooks;
    const auto strategy = central(3);
    auto state = strategy->create_state(hooks, 1);
    const auto data = strategy->distribute(hooks.create_datasets(), {4, 1});
    CHECK_THROWS_AS((void)troupe::train(*strategy, hooks, state, data, quiet_options(1)),
                    troupe::NonFiniteError);
    CHECK(state.replicas[2]->parameters()[0].second.item<float>() == 0.5F);
  }

  TEST_CASE("central storage: by name, and a cluster is refused") {
    auto options = mirrored_options(2);
    options.kind = troupe::StrategyKind::central_storage;
    const auto strategy = troupe::make_strategy(options);
    CHECK(std::string(strategy->name()) == "central-storage");
    CHECK(strategy->view().replicas_in_sync() == 2);
    options = options_of(0, 2, 1);
    options.kind = troupe::StrategyKind::central_storage;
    CHECK_THROWS_WITH_AS((void)troupe::make_strategy(options),
                         doctest::Contains("describes 2 workers"), troupe::ConfigError);
  }
}
