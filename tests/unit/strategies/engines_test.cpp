// Engines and compression: the same training by each of them, ranks as threads over real loopback
// sockets. MPI, which knows one rank per process, is in tests/process/engine_test.cpp.

#include <cmath>

#include "tests/support/captured_log.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/strategies/engines/engine.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace engines_test {

using troupe::Communication;
using troupe::Compression;
using troupe::StrategyOptions;
using namespace troupe::testing;  // NOLINT: a test

namespace {

constexpr std::int64_t kEpochs = 7;  // of three steps

bool has_gloo() {
  const std::string lacks = troupe::detail::engine_lacks(Communication::gloo);
  if (!lacks.empty()) MESSAGE("gloo is not tested: ", lacks);
  return lacks.empty();
}

struct Wish {
  Communication communication = Communication::native;
  Compression compress = Compression::none;
  int replicas = 1;
};

ChangeOptions as(const Wish& wish) {
  return [wish](StrategyOptions& options) {
    options.communication = wish.communication;
    options.compress = wish.compress;
    options.replicas = wish.replicas;
  };
}

/// What every rank ends with.
std::vector<Outcome> train_by(const Wish& wish, int size, std::int64_t epochs = kEpochs) {
  const TinyHooks hooks(10);  // batches of 4, 4 and 2
  return on_workers(
      size, [&](troupe::Strategy& strategy) { return train_with(strategy, hooks, epochs); },
      as(wish));
}

std::string refusal_of(const StrategyOptions& options) {
  try {
    (void)troupe::make_strategy(options);
  } catch (const troupe::ConfigError& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE(
      "engines: gloo gives the losses of the native engine, with 2 and 3 workers and 2 x 2 "
      "replicas") {
    if (!has_gloo()) return;
    struct Row {
      int size;
      int replicas;
    };
    for (const Row row : {Row{2, 1}, Row{3, 1}, Row{2, 2}}) {
      CAPTURE(row.size);
      CAPTURE(row.replicas);
      const auto native =
          train_by({Communication::native, Compression::none, row.replicas}, row.size);
      const auto gloo = train_by({Communication::gloo, Compression::none, row.replicas}, row.size);
      REQUIRE(native[0].losses.size() == 21);
      for (const Outcome& outcome : gloo) check_near(outcome.losses, native[0].losses);
    }
  }

  TEST_CASE("engines: each repeats bit for bit, and all ranks end with the same weights") {
    for (const Wish& wish : {Wish{Communication::native, Compression::none},
                             Wish{Communication::gloo, Compression::none},
                             Wish{Communication::native, Compression::float16},
                             Wish{Communication::native, Compression::bfloat16}}) {
      if (wish.communication == Communication::gloo && !has_gloo()) continue;
      CAPTURE(name_of(wish.communication));
      CAPTURE(name_of(wish.compress));
      const auto first = train_by(wish, 3);
      const auto second = train_by(wish, 3);
      for (const Outcome& outcome : first) CHECK(outcome.hash == first[0].hash);
      CHECK(second[0].hash == first[0].hash);
      CHECK(second[0].losses == first[0].losses);
    }
  }

  TEST_CASE("engines: the chief says which one is used and why") {
    const CapturedLog log;
    troupe::configure_log(troupe::LogLevel::debug, "");
    (void)train_by({Communication::automatic, Compression::none}, 2, 1);
    CHECK(log.count("gradients are summed over workers by native (the replicas are on the CPU)") ==
          1);
  }

  TEST_CASE("engines: an engine that this build lacks, and one that cannot compress, are refused") {
    StrategyOptions options;
    if (!troupe::detail::engine_lacks(Communication::nccl).empty()) {
      options.communication = Communication::nccl;
      CHECK(holds(refusal_of(options), "--communication nccl is not in this build: " +
                                           troupe::detail::engine_lacks(Communication::nccl)));
      CHECK(holds(refusal_of(options), "use auto"));
    }
    if (has_gloo()) {
      options.communication = Communication::gloo;
      options.compress = Compression::float16;
      CHECK(holds(refusal_of(options), "--communication gloo do not go together"));
    }
  }

  TEST_CASE("engines: between machines one that does not encrypt needs --insecure") {
    if (!has_gloo()) return;
    StrategyOptions options;
    options.communication = Communication::gloo;
    options.cluster.members.push_back({"worker/1", std::nullopt});
    options.cluster.members[0].address = troupe::Endpoint{"10.0.0.1", 2222};
    CHECK(holds(refusal_of(options), "--communication gloo does not encrypt"));
    options.group.insecure = true;
    CHECK(troupe::detail::choose_engine(options).engine == Communication::gloo);
    options.group.insecure = false;
    options.cluster.members[0].address = troupe::Endpoint{"127.0.0.1", 2222};
    CHECK(troupe::detail::choose_engine(options).engine == Communication::gloo);
    options.cluster.members[0].address = troupe::Endpoint{"10.0.0.1", 2222};
    options.communication = Communication::native;
    CHECK(troupe::detail::choose_engine(options).engine == Communication::native);
  }

  TEST_CASE("engines: workers that were given different ones do not start") {
    if (!has_gloo()) return;
    const auto errors = try_workers(
        2, [](int, troupe::Strategy& strategy) { (void)strategy.create_state(TinyHooks(), 1); },
        [](auto& options) {
          options.communication =
              options.cluster.rank == 0 ? Communication::native : Communication::gloo;
        });
    for (const auto& error : errors) {
      CHECK(holds(troupe::testing::message_of(error), "--communication"));
    }
  }

  TEST_CASE("engines: under gloo a worker that is in another collective is named") {
    if (!has_gloo()) return;
    const auto errors = try_workers(
        2,
        [](int rank, troupe::Strategy& strategy) {
          const TinyHooks hooks(10);
          auto state = strategy.create_state(hooks, 1);
          const auto data = strategy.distribute(hooks.create_datasets(), {4, 1});
          std::vector<double> one = {1.0};
          if (rank == 1) strategy.sum(troupe::Span<double>(one));
          for (const auto& batch : data.train->epoch(0)) {
            (void)strategy.run([&](auto& r, const auto& b) { return hooks.train_step(r, b); },
                               state, batch);
          }
        },
        as({Communication::gloo}));
    const std::string message = troupe::testing::message_of(errors[0]);
    CAPTURE(message);
    CHECK(holds(message, "worker/0 is in all_reduce"));
    CHECK(holds(message, "worker/1 in all_reduce"));
  }

  TEST_CASE("compress: trains as float32 does") {
    const auto full = train_by({Communication::native, Compression::none}, 3, 60);
    CHECK(full[0].losses.back() < 0.05 * full[0].losses.front());
    for (const Compression type : {Compression::float16, Compression::bfloat16}) {
      CAPTURE(name_of(type));
      const auto half = train_by({Communication::native, type}, 3, 60);
      CHECK(half[0].hash != full[0].hash);  // something was rounded
      CHECK(half[0].losses.back() == doctest::Approx(full[0].losses.back()).epsilon(0.01));
      CHECK(half[0].test.losses[0].second ==
            doctest::Approx(full[0].test.losses[0].second).epsilon(0.01));
    }
  }

  TEST_CASE("compress: interrupted at every step equals uninterrupted, bit for bit") {
    check_interruptions(5, [](const auto& dir, std::int64_t steps, bool) {
      return on_workers(
          2,
          [&](troupe::Strategy& strategy) {
            return train_alone(strategy, TinyHooks(10), quiet_options(steps, 4, dir));
          },
          as({Communication::native, Compression::bfloat16}));
    });
  }

  TEST_CASE("compress: a second training of a strategy begins without the first one's errors") {
    const TinyHooks hooks(10);
    const auto hashes = on_workers(
        2,
        [&](troupe::Strategy& strategy) {
          std::vector<std::string> own;
          for (int training = 0; training < 2; ++training) {
            auto state = strategy.create_state(hooks, 1);
            const auto data = strategy.distribute(hooks.create_datasets(), {4, 1});
            (void)troupe::train(strategy, hooks, state, data, quiet_options(5));
            own.push_back(troupe::common_parameter_hash(strategy, state));
          }
          strategy.close();
          return own;
        },
        as({Communication::native, Compression::bfloat16}));
    CHECK(hashes[0][0] == hashes[0][1]);
  }

  TEST_CASE("compress: optimisers that begin with the same parameter keep errors of their own") {
    class WholeAndPart final : public TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        torch::nn::Linear line(1, 1);
        const std::vector<at::Tensor> part = {line->weight};
        return troupe::Trainable()
            .add_model("model", line.ptr())
            .add_optimizer("whole", std::make_shared<torch::optim::SGD>(line->parameters(), 0.01))
            .add_optimizer("part", std::make_shared<torch::optim::SGD>(part, 0.01));
      }
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        replica.apply_gradients(forward(replica, batch), "whole");
        const auto loss = forward(replica, batch);
        replica.apply_gradients(loss, "part");
        return loss;
      }
    };
    const auto kept = on_workers(
        2,
        [](troupe::Strategy& strategy) {
          (void)train_with(strategy, WholeAndPart(), 1);
          return strategy.own_state().size();
        },
        as({Communication::native, Compression::bfloat16}));
    CHECK(kept == std::vector<std::size_t>{2, 2});
  }
}

}  // namespace engines_test
