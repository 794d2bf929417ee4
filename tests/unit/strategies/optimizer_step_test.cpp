#include "troupe/strategies/gradients/optimizer_step.h"

#include <ATen/Parallel.h>
#include <torch/optim.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/support/torch_prelude.h"
#include "troupe/hooks/optimizer_kind.h"
#include "troupe/strategies/gradients/optimizer_state.h"

namespace optimizer_step_test {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::AdamParamState;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
using troupe::NamedTensor;
using troupe::detail::state_key;
using troupe::detail::step_by_blocks;

namespace {

/// LibTorch shares the work of an operation among that many threads while it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_;
};

/// Of odd sizes: some steps go by blocks with one, two and three threads, one by blocks with fewer
/// threads alone, one never; one is large but not contiguous.
std::vector<NamedTensor> make_parameters(torch::ScalarType dtype) {
  torch::manual_seed(7);
  std::vector<NamedTensor> parameters;
  const auto add = [&](const char* name, const torch::Tensor& values) {
    parameters.emplace_back(name, values.detach().set_requires_grad(true));
  };
  add("large", torch::randn({401, 1003}, dtype));
  add("middle", torch::randn({150'001}, dtype));
  add("small", torch::randn({3, 7}, dtype));
  add("transposed", torch::randn({300, 441}, dtype).t());
  return parameters;
}

template <class Optimizer>
struct Kind;
template <>
struct Kind<Adam> {
  using Options = AdamOptions;
  using State = AdamParamState;
};
template <>
struct Kind<AdamW> {
  using Options = AdamWOptions;
  using State = AdamWParamState;
};

/// Two groups with options of their own.
template <class Optimizer>
struct Training {
  using Options = typename Kind<Optimizer>::Options;
  using State = typename Kind<Optimizer>::State;

  std::vector<NamedTensor> parameters;
  Optimizer optimizer;
  std::vector<at::Tensor> gradients;  // of every step, but for a factor

  explicit Training(torch::ScalarType dtype)
      : parameters(make_parameters(dtype)), optimizer(groups(parameters)) {
    for (const auto& [name, parameter] : parameters) {
      gradients.push_back(torch::randn_like(parameter.detach()));
    }
  }

  static std::vector<torch::optim::OptimizerParamGroup> groups(
      const std::vector<NamedTensor>& named) {
    std::vector<torch::optim::OptimizerParamGroup> made;
    made.emplace_back(std::vector<at::Tensor>{named[0].second, named[2].second},
                      std::make_unique<Options>(Options(0.01).weight_decay(0.02)));
    made.emplace_back(
        std::vector<at::Tensor>{named[1].second, named[3].second},
        std::make_unique<Options>(Options(0.003).betas({0.8, 0.95}).eps(1e-5).weight_decay(0)));
    return made;
  }

  Options& options(std::size_t group) {
    return static_cast<Options&>(optimizer.param_groups()[group].options());
  }
  State& state(std::size_t i) {
    return static_cast<State&>(*optimizer.state().at(state_key(parameters[i].second)));
  }
};

/// The same gradients for both; in some steps a parameter has none.
template <class Optimizer>
void give_gradients(Training<Optimizer>& ours, Training<Optimizer>& theirs, int step) {
  for (std::size_t i = 0; i < ours.parameters.size(); ++i) {
    at::Tensor gradient;
    if ((step + static_cast<int>(i)) % 4 != 3) gradient = ours.gradients[i] * std::cos(step);
    ours.parameters[i].second.mutable_grad() = gradient;
    theirs.parameters[i].second.mutable_grad() = gradient.defined() ? gradient.clone() : gradient;
  }
}

template <class Optimizer>
void check_equal(Training<Optimizer>& ours, Training<Optimizer>& theirs) {
  REQUIRE(ours.optimizer.state().size() == theirs.optimizer.state().size());
  for (std::size_t i = 0; i < ours.parameters.size(); ++i) {
    CAPTURE(ours.parameters[i].first);
    CHECK(ours.parameters[i].second.equal(theirs.parameters[i].second));
    if (theirs.optimizer.state().count(state_key(theirs.parameters[i].second)) == 0) continue;
    auto& mine = ours.state(i);
    auto& other = theirs.state(i);
    CHECK(mine.step() == other.step());
    CHECK(mine.exp_avg().equal(other.exp_avg()));
    CHECK(mine.exp_avg_sq().equal(other.exp_avg_sq()));
    CHECK(mine.exp_avg().strides() == other.exp_avg().strides());
    CHECK(mine.max_exp_avg_sq().defined() == other.max_exp_avg_sq().defined());
  }
}

/// Steps of both, compared after each of the first two and after the last.
template <class Optimizer>
void check_steps(Training<Optimizer>& ours, Training<Optimizer>& theirs, int first, int steps) {
  for (int step = first; step < first + steps; ++step) {
    CAPTURE(step);
    give_gradients(ours, theirs, step);
    for (auto* training : {&ours, &theirs}) training->options(0).lr(0.01 / (1 + step));
    step_by_blocks(ours.optimizer);
    theirs.optimizer.step();
    if (step < first + 2 || step == first + steps - 1) check_equal(ours, theirs);
  }
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE_TEMPLATE("optimizer step: 50 fused ones end with LibTorch's bits", Optimizer, Adam,
                     AdamW) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
      for (const int count : {1, 2, 3}) {
        CAPTURE(dtype);
        CAPTURE(count);
        const Threads threads(count);
        Training<Optimizer> ours(dtype);
        Training<Optimizer> theirs(dtype);
        check_steps(ours, theirs, 0, count == 2 ? 50 : 4);
      }
    }
  }

  TEST_CASE_TEMPLATE("optimizer step: a fused one goes on from a saved state", Optimizer, Adam,
                     AdamW) {
    const Threads threads(2);
    Training<Optimizer> before(torch::kFloat32);
    Training<Optimizer> theirs(torch::kFloat32);
    check_steps(before, theirs, 0, 5);
    std::vector<NamedTensor> tensors;
    const auto saved = troupe::describe_optimizer(before.optimizer, before.parameters, tensors);
    Training<Optimizer> after(torch::kFloat32);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < after.parameters.size(); ++i) {
      after.parameters[i].second.copy_(before.parameters[i].second);
    }
    troupe::restore_optimizer(after.optimizer, after.parameters, saved, tensors);
    check_steps(after, theirs, 5, 5);
  }

  TEST_CASE("optimizer step: what is not fused is LibTorch's") {
    SUBCASE("amsgrad") {
      Training<Adam> ours(torch::kFloat32);
      Training<Adam> theirs(torch::kFloat32);
      for (auto* training : {&ours, &theirs}) training->options(1).amsgrad(true);
      check_steps(ours, theirs, 0, 3);
      CHECK(ours.state(1).max_exp_avg_sq().equal(theirs.state(1).max_exp_avg_sq()));
    }
    SUBCASE("a sparse gradient is refused") {
      const auto table = torch::zeros({1'000'000, 1}, torch::requires_grad());
      table.mutable_grad() = torch::sparse_coo_tensor(torch::zeros({1, 1}, torch::kInt64),
                                                      torch::ones({1, 1}), {1'000'000, 1});
      Adam adam({table}, AdamOptions(0.1));
      CHECK_THROWS_WITH(step_by_blocks(adam), doctest::Contains("sparse"));
      CHECK(adam.state().empty());
    }
    SUBCASE("a kind derived from Adam steps in its own way") {
      struct Counting final : Adam {
        using Adam::Adam;
        torch::Tensor step(LossClosure /*closure*/) override {
          ++steps;
          return {};
        }
        int steps = 0;
      };
      const auto values = torch::zeros({1'000'000}, torch::requires_grad());
      values.mutable_grad() = torch::ones({1'000'000});
      Counting counting({values}, AdamOptions(0.1));
      step_by_blocks(counting);
      CHECK(counting.steps == 1);
      CHECK(values.detach().sum().item<double>() == 0);
    }
    SUBCASE("SGD") {
      const auto values = torch::zeros({1'000'000}, torch::requires_grad());
      values.mutable_grad() = torch::ones({1'000'000});
      torch::optim::SGD sgd({values}, torch::optim::SGDOptions(0.5));
      step_by_blocks(sgd);
      CHECK(values.detach().sum().item<double>() == -500'000);
    }
  }

  TEST_CASE("optimizer step: parameters know that they have changed") {
    const auto values = torch::zeros({1'000'000}, torch::requires_grad());
    const auto product = (values * values).sum();  // backward needs the values as they are
    values.mutable_grad() = torch::ones({1'000'000});
    Adam adam({values}, AdamOptions(0.1));
    step_by_blocks(adam);
    CHECK_THROWS_WITH(product.backward(), doctest::Contains("inplace operation"));
  }
}

}  // namespace optimizer_step_test
