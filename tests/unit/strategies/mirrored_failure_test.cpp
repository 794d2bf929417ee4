// What goes wrong with replicas in one process, and what is refused.
#include "tests/support/captured_log.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/make_strategy.h"

using namespace troupe::testing;  // NOLINT: a test

namespace {

/// What `act` does in the training step of one replica, and the usual in all others.
class OnReplica final : public TinyHooks {
 public:
  using Act = std::function<void(troupe::Replica&, const at::Tensor&)>;
  OnReplica(int index, Act act) : index_(index), act_(std::move(act)) {}

  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    if (replica.place().index == index_) {
      act_(replica, loss);
    } else {
      replica.apply_gradients(loss);
    }
    return loss;
  }

 private:
  int index_;
  Act act_;
};

void usual(troupe::Replica& replica, const at::Tensor& loss) { replica.apply_gradients(loss); }

/// The first step of `hooks` on mirrored replicas.
void take_a_step(const troupe::Hooks& hooks, int replicas, troupe::TrainState* after = nullptr) {
  const auto strategy = troupe::make_mirrored(mirrored_options(replicas));
  auto state = strategy->create_state(hooks, 1);
  const auto data = strategy->distribute(hooks.create_datasets(), {10, 1});
  try {
    for (const auto& batch : data.train->epoch(0)) {
      (void)strategy->run(
          [&](auto& replica, const auto& b) { return hooks.train_step(replica, b); }, state, batch);
    }
  } catch (...) {
    if (after != nullptr) *after = std::move(state);
    throw;
  }
  if (after != nullptr) *after = std::move(state);
}

/// Of two workers with two replicas each that train.
RankErrors errors_of_two(const troupe::Hooks& hooks) {
  return try_workers(
      2, [&](int, troupe::Strategy& strategy) { (void)train_with(strategy, hooks); },
      [](auto& options) { options.replicas = 2; });
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("mirrored: an exception in one replica's hook is the run's, and nothing hangs") {
    const OnReplica hooks(2, [](auto&, const auto&) {
      throw troupe::DataError("the hook of replica 2 gave up.", "ask it why.");
    });
    CHECK_THROWS_WITH_AS(take_a_step(hooks, 4), doctest::Contains("replica 2 gave up"),
                         troupe::DataError);
    // In a group every worker learns it.
    for (const auto& error : errors_of_two(hooks)) {
      CAPTURE(message_of(error));
      CHECK(message_of(error).find("replica 2 gave up") != std::string::npos);
    }
  }

  TEST_CASE("mirrored: a replica that reduces less or more often than the others is named") {
    const OnReplica less(1, [](auto&, const auto&) {});
    CHECK_THROWS_WITH_AS(take_a_step(less, 3), doctest::Contains("replica 1 ended its step"),
                         troupe::DesyncError);
    const OnReplica more(1, [](auto& replica, const at::Tensor& loss) {
      usual(replica, loss * 0.5);
      const auto& weight = replica.template model<torch::nn::LinearImpl>().weight;
      usual(replica, replica.local_loss((weight * 2).sum()));
    });
    CHECK_THROWS_WITH_AS(take_a_step(more, 3), doctest::Contains("and replica 1 is in apply_grad"),
                         troupe::DesyncError);
  }

  TEST_CASE(
      "mirrored: a gradient that is not finite in one replica stops all before the optimiser") {
    const OnReplica hooks(
        1, [](auto& replica, const at::Tensor& loss) { usual(replica, loss / 0.0); });
    troupe::TrainState state;
    CHECK_THROWS_WITH_AS(take_a_step(hooks, 3, &state), doctest::Contains("\"weight\""),
                         troupe::NonFiniteError);
    for (const auto& replica : state.replicas) {
      CHECK(replica->parameters()[0].second.item<float>() == 0.5F);
    }
    for (const auto& error : errors_of_two(hooks)) {
      CHECK_THROWS_AS(std::rethrow_exception(error), troupe::NonFiniteError);
    }
  }

  TEST_CASE("mirrored: finite gradients whose sum overflows are trained on") {
    // Two halves of the largest number: every value is finite, the sum of all is not.
    const OnReplica hooks(0, [](auto& replica, const at::Tensor&) {
      auto& line = replica.template model<torch::nn::LinearImpl>();
      usual(replica, replica.local_loss((line.weight.sum() + line.bias.sum()) * 3e38F));
    });
    CHECK_NOTHROW(take_a_step(hooks, 1));
  }

  TEST_CASE("mirrored: hooks that draw on a shared CPU are warned of, and only there") {
    class Dropping final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Sequential net(torch::nn::Linear(1, 1), torch::nn::Dropout(0.5));
        return {net.ptr(), std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
      }
      [[nodiscard]] at::Tensor output(troupe::Replica& replica,
                                      const at::Tensor& x) const override {
        return replica.model<torch::nn::SequentialImpl>().forward(x);
      }
    };
    const CapturedLog log;
    take_a_step(Dropping(), 1);
    take_a_step(TinyHooks(), 2);
    CHECK(log.count(" W ") == 0);
    take_a_step(Dropping(), 2);
    CHECK(log.count("draws random numbers (aten::") == 1);
  }

  TEST_CASE("mirrored: workers with different numbers of replicas refuse each other") {
    const auto errors = try_workers(
        2, [](int, troupe::Strategy& strategy) { (void)strategy.create_state(TinyHooks(), 1); },
        [](auto& options) { options.replicas = 1 + options.cluster.rank; });
    for (const auto& error : errors) {
      CAPTURE(message_of(error));
      CHECK(message_of(error).find("--devices") != std::string::npos);
      CHECK_THROWS_AS(std::rethrow_exception(error), troupe::ConfigError);
    }
  }

  TEST_CASE("make_strategy: auto follows workers and replicas, and what contradicts is refused") {
    troupe::StrategyOptions options;
    CHECK(std::string(troupe::make_strategy(options)->name()) == "one-device");
    options.devices = {"cpu:0", "cpu:1", "cpu"};
    const auto strategy = troupe::make_strategy(options);
    CHECK(std::string(strategy->name()) == "mirrored");
    CHECK(strategy->local_replicas() == 3);
    CHECK(strategy->view().replicas_in_sync() == 3);
    const auto refused = [&](const std::function<void(troupe::StrategyOptions&)>& change,
                             const char* part) {
      troupe::StrategyOptions changed;
      change(changed);
      CHECK_THROWS_WITH_AS((void)troupe::make_strategy(changed), doctest::Contains(part),
                           troupe::ConfigError);
    };
    refused([](auto& o) { o.devices = {"cpu:0", "gpu"}; }, "--devices gpu is no device");
    refused([](auto& o) { o.devices = {"cpu:x"}; }, "--devices cpu:x is no device");
    refused([](auto& o) { o.devices = {"cpu:0"}, o.replicas = 2; },
            "2 replicas were asked for, but --devices names 1 device.");
    refused([](auto& o) { o.kind = troupe::StrategyKind::one_device, o.replicas = 2; },
            "but --devices asks for 2");
    refused([](auto& o) { o = options_of(0, 2, 1), o.kind = troupe::StrategyKind::mirrored; },
            "describes 2 workers");
    options.devices = {"cuda:0", "cuda:99"};
    CHECK_THROWS_AS((void)troupe::make_strategy(options), troupe::EnvironmentError);
  }
}
