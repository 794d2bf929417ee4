// Ranks as threads of this process. Models here are made from constants: LibTorch's generator is
// one per process, which a worker process has for itself.
#include "troupe/strategies/kinds/multi_worker.h"

#include <mutex>

#include "tests/support/captured_log.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/core/machine.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/kinds/one_process.h"

using namespace troupe::testing;  // NOLINT: a test

namespace {

/// What a worker reads that comes to its next collective after others have failed.
void check_knows_why(troupe::Strategy& strategy, const std::string& why) {
  std::vector<double> values = {1.0};
  try {
    strategy.sum(troupe::Span<double>(values));
  } catch (const troupe::PeerFailed& error) {
    if (std::string(error.what()).find(why) != std::string::npos) return;
    throw;
  }
  throw std::runtime_error("the group goes on");
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("multi_worker: any number of workers takes the steps of one device") {
    const TinyHooks hooks(
        10);  // batches of 4, 4 and 2: with three workers and more, some have none
    const auto alone = troupe::make_one_device({});
    const Outcome expected = train_with(*alone, hooks);
    REQUIRE(expected.losses.size() == 9);
    for (const int size : {1, 2, 3, 4, 7}) {
      CAPTURE(size);
      for (const Outcome& outcome : train_on(size, hooks)) {
        check_near(outcome.losses, expected.losses);
        CHECK(outcome.test.examples == 10);
        CHECK(outcome.test.metrics[0].value ==
              doctest::Approx(expected.test.metrics[0].value).epsilon(1e-6));
      }
    }
  }

  TEST_CASE("multi_worker: a parameter nobody used keeps no gradient, as on one device") {
    const auto outcomes = train_on(2, SideLayer());
    const auto alone = train_with(*troupe::make_one_device({}), SideLayer());
    CHECK(outcomes[0].losses.back() == doctest::Approx(alone.losses.back()).epsilon(1e-6));
    CHECK_NOTHROW((void)train_on(2, CheckSide()));
  }

  TEST_CASE("multi_worker: a parameter that one replica used learns on all") {
    const auto outcomes = train_on(2, SideOfOne());
    CHECK(outcomes[0].hash == outcomes[1].hash);
    CHECK(outcomes[0].hash != train_on(2, SideLayer())[0].hash);
  }

  TEST_CASE("multi_worker: the chief's weights are everybody's from the start") {
    class OwnStart final : public TinyHooks {
     public:
      explicit OwnStart(float start) : start_(start) {}
      [[nodiscard]] troupe::Trainable create_model() const override {
        auto made = TinyHooks::create_model();
        const torch::NoGradGuard no_grad;
        for (auto& parameter : made.models[0].second->parameters()) parameter.fill_(start_);
        return made;
      }

     private:
      float start_;
    };
    run_workers(2, [&](int rank, troupe::Strategy& strategy) {
      const OwnStart hooks(rank == 0 ? 3.0F : 4.0F);
      auto state = strategy.create_state(hooks, 1);
      if (state.replicas[0]->parameters()[0].second.item<float>() != 3.0F) {
        throw std::runtime_error("not the chief's weights");
      }
      strategy.close();
    });
  }

  TEST_CASE("multi_worker: models that differ are refused, the first tensor named on both sides") {
    class Wide final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Linear line(1, 2);
        return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.01)};
      }
    };
    std::mutex mutex;
    std::vector<std::string> messages;
    run_workers(2, [&](int rank, troupe::Strategy& strategy) {
      try {
        if (rank == 0) (void)strategy.create_state(TinyHooks(), 1);
        if (rank == 1) (void)strategy.create_state(Wide(), 1);
      } catch (const troupe::ConfigError& error) {
        const std::lock_guard<std::mutex> lock(mutex);
        messages.emplace_back(error.what());
      }
    });
    REQUIRE(messages.size() == 2);
    for (const auto& message : messages) {
      CAPTURE(message);
      CHECK(message.find("weight Float [1, 1]") != std::string::npos);
      CHECK(message.find("weight Float [2, 1]") != std::string::npos);
    }
  }

  TEST_CASE(
      "multi_worker: more workers of this machine than its cores were divided among are named") {
    const auto join = [](int counted) {
      const CapturedLog log;
      const auto port = troupe::testing::free_port();
      troupe::testing::run_ranks(2, [&](int rank) {
        at::set_num_threads(troupe::inspect_cores().usable);
        auto options = options_of(rank, 2, port);
        options.cluster.on_this_machine = counted;
        const auto strategy = troupe::make_multi_worker(options);
        (void)strategy->create_state(TinyHooks(), 1);
        strategy->close();
      });
      at::set_num_threads(1);
      return log.text();
    };
    CHECK(join(1).find("2 workers share this machine") != std::string::npos);
    CHECK(join(2).find("share this machine") == std::string::npos);
  }

  TEST_CASE("multi_worker: data sets of different sizes are refused with both sizes") {
    run_workers(2, [&](int rank, troupe::Strategy& strategy) {
      const TinyHooks hooks(rank == 0 ? 10 : 11);
      (void)strategy.create_state(hooks, 1);
      try {
        (void)strategy.distribute(hooks.create_datasets(), {4, 1});
      } catch (const troupe::Error& error) {  // its own, or the other one's, whichever is first
        const std::string message = error.what();
        const char* const why =
            "rank 1 has other data than the chief: number of training examples is 11, the chief's "
            "is 10.";
        if (message.find(why) != std::string::npos) return check_knows_why(strategy, why);
      }
      throw std::runtime_error("the sizes were not compared");
    });
  }

  TEST_CASE("multi_worker: samplers that differ are refused with both orders") {
    run_workers(2, [&](int rank, troupe::Strategy& strategy) {
      const TinyHooks hooks(4);
      (void)strategy.create_state(hooks, 1);
      auto splits = hooks.create_datasets();
      splits.sampler = troupe::weighted({1, 1, 1, rank == 0 ? 1. : 2.}, 100);
      try {
        (void)strategy.distribute(splits, {4, 1});
      } catch (const troupe::Error& error) {  // its own, or the other one's, whichever is first
        const std::string message = error.what();
        if (message.find("rank 1 has other data than the chief: order of the training examples is "
                         "weighted ") != std::string::npos) {
          return check_knows_why(strategy, "order of the training examples");
        }
      }
      throw std::runtime_error("the orders were not compared");
    });
  }

  TEST_CASE("multi_worker: a worker whose data cannot be read tells the others why") {
    class Unreadable final : public troupe::Dataset {
     public:
      [[nodiscard]] std::int64_t size() const override { return 10; }
      [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor&) const override {
        throw troupe::DataError("the disk of rank 1 is gone.", "replace it.");
      }
    };
    run_workers(2, [&](int rank, troupe::Strategy& strategy) {
      const TinyHooks hooks(10);
      auto state = strategy.create_state(hooks, 1);
      auto splits = hooks.create_datasets();
      if (rank == 1) splits.train = std::make_shared<Unreadable>();
      try {
        const auto data = strategy.distribute(splits, {4, 1});
        (void)troupe::train(strategy, hooks, state, data, {});
      } catch (const troupe::DataError&) {
        if (rank == 1) return;
        throw;
      } catch (const troupe::PeerFailed& error) {
        const std::string message = error.what();
        if (message.find("the disk of rank 1 is gone") != std::string::npos) return;
        throw;
      }
      throw std::runtime_error("nothing was noticed");
    });
  }

  TEST_CASE("multi_worker: a gradient that is not finite stops every rank before the optimiser") {
    class Exploding final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        const auto loss = forward(replica, batch) / (replica.place().index == 1 ? 0.0 : 1.0);
        replica.apply_gradients(loss);
        return loss;
      }
    };
    run_workers(2, [&](int, troupe::Strategy& strategy) {
      const Exploding hooks;
      auto state = strategy.create_state(hooks, 1);
      const auto data = strategy.distribute(hooks.create_datasets(), {4, 1});
      try {
        (void)troupe::train(strategy, hooks, state, data, {});
      } catch (const troupe::NonFiniteError&) {
        if (state.replicas[0]->parameters()[0].second.item<float>() == 0.5F) {
          return check_knows_why(strategy, "not finite");
        }
      }
      throw std::runtime_error("a step was taken");
    });
  }

  TEST_CASE(
      "make_strategy: a device that does not exist, and one device for a group, are refused") {
    troupe::StrategyOptions options;
    options = options_of(0, 2, 1);
    options.kind = troupe::StrategyKind::one_device;
    CHECK_THROWS_AS((void)troupe::make_strategy(options), troupe::ConfigError);
    options = {};
    options.device = "gpu";
    CHECK_THROWS_WITH_AS((void)troupe::make_strategy(options), doctest::Contains("--devices gpu"),
                         troupe::ConfigError);
  }
}
