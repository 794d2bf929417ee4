// template/hooks_test.cpp -- one step of your hooks, alone and on two replicas that share its
// batch: both must end with the same losses and the same weights, as they must in a group of
// workers. Random layers draw other numbers on each replica: switch dropout off in the options
// below.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "my_hooks.h"
#include "troupe.h"

namespace {

/// The program, as main() makes it from a command line.
struct Program {
  int argc;
  const char* const* argv;
  MyOptions options{argc, argv};
  MyHooks hooks{options};
};

/// What a step does.
struct Outcome {
  troupe::LossValues losses;  // of the whole batch; empty: there is no such batch
  torch::Tensor update;       // of all weights, end to end
};

torch::Tensor weights(const troupe::TrainState& state) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, tensor] : state.replicas.front()->parameters())
    parts.push_back(tensor.detach().flatten().to(torch::kFloat64));
  return torch::cat(parts);  // a copy
}

/// The first step of `phase` from the same initial weights.
Outcome first_step(troupe::Phase phase, const std::string& devices) {
  const std::vector<const char*> words = {"my_training", "--devices", devices.c_str()};
  const Program program{static_cast<int>(words.size()), words.data()};
  const auto strategy = troupe::make_strategy(program.options.strategy);
  auto state = strategy->create_state(program.hooks, program.options.train.seed);
  const auto data = strategy->distribute(program.hooks, program.options.train.batches());
  const bool trains = phase == troupe::Phase::train;
  const auto step = [&](troupe::Replica& replica, const troupe::Batch& batch) {
    return trains ? program.hooks.train_step(replica, batch)
                  : program.hooks.validation_step(replica, batch);
  };
  Outcome outcome;
  const auto& split = trains ? data.train : data.validation;
  if (split) {
    const auto before = weights(state);
    for (const auto& batch : split->epoch(0)) {
      outcome.losses = strategy->reduce(strategy->run(step, state, batch, phase));
      break;
    }
    outcome.update = weights(state) - before;
  }
  strategy->close();
  return outcome;
}

void check_losses(const Outcome& alone, const Outcome& shared) {
  REQUIRE(alone.losses.size() == shared.losses.size());
  for (std::size_t i = 0; i < alone.losses.size(); ++i) {
    INFO("loss ", alone.losses[i].first);
    CHECK(shared.losses[i].second == doctest::Approx(alone.losses[i].second).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("a training step is the same alone and on two replicas") {
  const Outcome alone = first_step(troupe::Phase::train, "cpu");
  const Outcome shared = first_step(troupe::Phase::train, "cpu:0-1");
  check_losses(alone, shared);
  const double size = alone.update.norm().item<double>();
  CHECK(size > 0);  // else nothing was learnt
  CHECK((shared.update - alone.update).norm().item<double>() <= 0.01 * size);
}

TEST_CASE("a validation step is the same alone and on two replicas") {
  const Outcome alone = first_step(troupe::Phase::validation, "cpu");
  if (alone.losses.empty()) MESSAGE("nothing to check: there are no validation data");
  check_losses(alone, first_step(troupe::Phase::validation, "cpu:0-1"));
}
