// Kinds of optimisers: what is registered is described and restored whole, and what is not, or does
// not fit its registration, is refused by name.
#include "troupe/strategies/gradients/optimizer_state.h"

#include <torch/optim.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/optimizer_kind.h"

namespace optimizer_state_test {

namespace {

struct PulseOptions : torch::optim::OptimizerCloneableOptions<PulseOptions> {
  TORCH_ARG(double, lr) = 0.5;
  TORCH_ARG(double, limit) = std::numeric_limits<double>::infinity();
  TORCH_ARG(std::int64_t, every) = 2;
  TORCH_ARG(bool, flips) = false;
};
struct PulseState : torch::optim::OptimizerCloneableParamState<PulseState> {
  TORCH_ARG(double, longest) = -std::numeric_limits<double>::infinity();
  TORCH_ARG(torch::Tensor, corner);  // of a shape that is not the parameter's
};
struct OtherState : torch::optim::OptimizerCloneableParamState<OtherState> {};

/// An optimiser of one parameter, whose steps leave it alone. `N` makes a type of its own.
template <int N>
class Pulse final : public torch::optim::Optimizer {
 public:
  explicit Pulse(const torch::Tensor& parameter)
      : Optimizer({torch::optim::OptimizerParamGroup(std::vector<torch::Tensor>{parameter})},
                  std::make_unique<PulseOptions>()) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override { return {}; }
};

template <int N, class State = PulseState>
bool register_pulse(const std::string& name) {
  return troupe::register_optimizer<Pulse<N>, PulseOptions, State>(
      {name,
       [](PulseOptions& options, troupe::FieldVisitor& visit) {
         visit("lr", options.lr());
         visit("limit", options.limit());
         visit("every", options.every());
         visit("flips", options.flips());
       },
       [](State& state, troupe::FieldVisitor& visit) {
         if constexpr (std::is_same_v<State, PulseState>) {
           visit("longest", state.longest());
           visit("corner", state.corner());
         }
       }});
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("optimizer state: every field of a registered kind comes back, whatever its shape") {
    REQUIRE(register_pulse<1>("Pulse"));
    const torch::Tensor weight = torch::zeros({3, 2});
    const std::vector<troupe::NamedTensor> names = {{"weight", weight}};
    Pulse<1> saved(weight);
    auto& options = static_cast<PulseOptions&>(saved.param_groups()[0].options());
    options.every(7).flips(true).lr(0.1);
    troupe::parameter_state<PulseState>(saved, weight).corner(torch::ones({5}));
    std::vector<troupe::NamedTensor> tensors;
    // As a checkpoint has it: through text.
    const auto description =
        nlohmann::json::parse(troupe::describe_optimizer(saved, names, tensors).dump());
    CHECK(description["type"] == "Pulse");
    REQUIRE(tensors.size() == 1);
    CHECK(tensors[0].first == "weight/corner");

    Pulse<1> restored(weight);
    troupe::restore_optimizer(restored, names, description, tensors);
    const auto& back = static_cast<PulseOptions&>(restored.param_groups()[0].options());
    CHECK(back.lr() == 0.1);
    CHECK(back.limit() == std::numeric_limits<double>::infinity());
    CHECK(back.every() == 7);
    CHECK(back.flips());
    const auto& state = troupe::parameter_state<PulseState>(restored, weight);
    CHECK(state.longest() == -std::numeric_limits<double>::infinity());
    CHECK(torch::equal(state.corner(), torch::ones({5})));
    CHECK_FALSE(state.corner().is_same(tensors[0].second));
  }

  TEST_CASE("optimizer state: what goes element by element keeps the shapes of its parameters") {
    const torch::Tensor weight = torch::zeros({3, 2}).requires_grad_();
    const std::vector<troupe::NamedTensor> names = {{"weight", weight}};
    torch::optim::Adam adam({weight}, 0.1);
    weight.mutable_grad() = torch::ones({3, 2});
    adam.step();
    std::vector<troupe::NamedTensor> tensors;
    const auto description = troupe::describe_optimizer(adam, names, tensors);
    tensors[0].second = torch::ones({5});
    CHECK_THROWS_WITH_AS(troupe::restore_optimizer(adam, names, description, tensors),
                         doctest::Contains("weight/exp_avg is Float [5]"), troupe::CheckpointError);
  }

  TEST_CASE("optimizer state: what create_model makes anew counts, what a loop has changed stays") {
    const torch::Tensor weight = torch::zeros({2}).requires_grad_();
    const std::vector<troupe::NamedTensor> names = {{"weight", weight}};
    using Options = torch::optim::RMSpropOptions;
    const auto step = [&](torch::optim::Optimizer& optimizer) {
      weight.mutable_grad() = torch::ones({2});
      optimizer.step();
    };
    torch::optim::RMSprop saved({weight}, Options(0.1).weight_decay(0.5));
    const auto made = troupe::options_of(saved);
    auto& options = static_cast<Options&>(saved.param_groups()[0].options());
    options.lr(0.01).alpha(0.5);  // by the loop
    step(saved);
    std::vector<troupe::NamedTensor> tensors;
    auto description = troupe::describe_optimizer(saved, names, tensors);
    description["groups"][0]["made"] = made[0];
    const auto restored = [&](const Options& with) {
      torch::optim::RMSprop optimizer({weight}, with);
      troupe::restore_optimizer(optimizer, names, description, tensors);
      step(optimizer);  // whatever it needs is there
      return static_cast<Options&>(optimizer.param_groups()[0].options());
    };
    CHECK(restored(Options(0.1).weight_decay(0.5)) == options);
    const Options changed = restored(Options(0.2).weight_decay(0).momentum(0.9).centered(true));
    CHECK(changed.lr() == 0.2);
    CHECK(changed.weight_decay() == 0);
    CHECK(changed.momentum() == 0.9);
    CHECK(changed.alpha() == 0.5);
    CHECK_FALSE(changed.centered());  // would need what the checkpoint does not have
  }

  TEST_CASE("optimizer state: kinds that are not registered, or wrongly, are refused by type") {
    class OwnSgd final : public torch::optim::SGD {
     public:
      using SGD::SGD;
    };
    const torch::Tensor weight = torch::zeros({1});
    OwnSgd derived({weight}, 0.1);
    CHECK_THROWS_WITH_AS((void)troupe::kind_of(derived), doctest::Contains("OwnSgd"),
                         troupe::ConfigError);
    torch::optim::SGD sgd({weight}, 0.1);
    CHECK(troupe::kind_of(sgd).name == "SGD");
    CHECK_THROWS_WITH_AS(register_pulse<2>("SGD"), doctest::Contains("two kinds"),
                         troupe::ConfigError);
    REQUIRE(register_pulse<3, OtherState>("PulseWithOtherState"));
    REQUIRE(register_pulse<3, OtherState>("again, which changes nothing"));
    Pulse<3> pulse(weight);
    CHECK(troupe::kind_of(pulse).name == "PulseWithOtherState");
    (void)troupe::parameter_state<PulseState>(pulse, weight);
    std::vector<troupe::NamedTensor> tensors;
    CHECK_THROWS_WITH_AS((void)troupe::describe_optimizer(pulse, {{"weight", weight}}, tensors),
                         doctest::Contains("OtherState was registered"), troupe::ConfigError);
  }
}

}  // namespace optimizer_state_test
