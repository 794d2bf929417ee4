#include "troupe/strategies/gradients/foreach_step.h"

#include <torch/optim.h>

#include <functional>
#include <memory>

#include "tests/support/torch_prelude.h"

namespace foreach_step_test {

using torch::optim::Optimizer;
using troupe::detail::step_by_foreach;

namespace {

using Tensors = std::vector<torch::Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(const Tensors&, const Tensors&)>;

Tensors make_parameters() {
  torch::manual_seed(7);
  Tensors parameters = {torch::randn({5, 3}), torch::randn({4, 6}).t(), torch::randn({}),
                        torch::randn({3, 4, 2})};
  for (torch::Tensor& parameter : parameters) parameter.requires_grad_(true);
  return parameters;
}

/// The last parameter has no gradient in the first two steps, and none in the fourth.
void make_gradients(const Tensors& parameters, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto gradient = torch::randn(parameters[i].sizes());
    const bool is_used = i + 1 < parameters.size() || (step >= 2 && step != 3);
    parameters[i].mutable_grad() = is_used ? gradient : torch::Tensor();
  }
}

/// Two groups of an optimiser with options of their own.
template <class Kind, class Options>
Make make(const Options& options, const Options& others) {
  return [options, others](const Tensors& first, const Tensors& second) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(first, std::make_unique<Options>(options));
    groups.emplace_back(second, std::make_unique<Options>(others));
    return std::make_unique<Kind>(std::move(groups), options);
  };
}

void check_equal(const Make& make) {
  const Tensors ours = make_parameters();
  const Tensors theirs = make_parameters();
  const auto first = make({ours[0], ours[1]}, {ours[2], ours[3]});
  const auto second = make({theirs[0], theirs[1]}, {theirs[2], theirs[3]});
  for (int step = 0; step < 5; ++step) {
    make_gradients(ours, step);
    make_gradients(theirs, step);
    CHECK(step_by_foreach(*first));
    second->step();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      INFO("step " << step << ", parameter " << i);
      CHECK(ours[i].equal(theirs[i]));
    }
  }
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("foreach_step: SGD's bits are optimizer.step()'s") {
    using torch::optim::SGD;
    using Options = torch::optim::SGDOptions;
    check_equal(make<SGD>(Options(0.1), Options(0.01).weight_decay(0.1)));
    check_equal(make<SGD>(Options(0.1).momentum(0.9), Options(0.2).momentum(0.8).dampening(0.1)));
    check_equal(make<SGD>(Options(0.1).momentum(0.9).nesterov(true),
                          Options(0.1).momentum(0.9).nesterov(true).weight_decay(0.1)));
  }

  TEST_CASE("foreach_step: Adam's and AdamW's bits are optimizer.step()'s") {
    using torch::optim::AdamOptions;
    using torch::optim::AdamWOptions;
    check_equal(make<torch::optim::Adam>(
        AdamOptions(0.1), AdamOptions(0.01).weight_decay(0.1).betas({0.8, 0.99}).eps(1e-4)));
    check_equal(make<torch::optim::AdamW>(AdamWOptions(0.1).weight_decay(0),
                                          AdamWOptions(0.01).weight_decay(0.1)));
  }

  TEST_CASE("foreach_step: what it does not know it leaves alone") {
    Tensors parameters = make_parameters();
    const auto is_taken = [&](Optimizer&& optimizer) {
      make_gradients(parameters, 2);
      const auto before = parameters[0].detach().clone();
      const bool taken = step_by_foreach(optimizer);
      CHECK(taken != parameters[0].equal(before));
      return taken;
    };
    CHECK(is_taken(torch::optim::SGD(parameters, torch::optim::SGDOptions(0.1))));
    CHECK_FALSE(is_taken(torch::optim::RMSprop(parameters)));
    CHECK_FALSE(
        is_taken(torch::optim::Adam(parameters, torch::optim::AdamOptions().amsgrad(true))));
    CHECK_FALSE(
        is_taken(torch::optim::AdamW(parameters, torch::optim::AdamWOptions().amsgrad(true))));
    struct Own final : torch::optim::SGD {
      using SGD::SGD;
    };
    CHECK_FALSE(is_taken(Own(parameters, torch::optim::SGDOptions(0.1))));
    CHECK_FALSE(is_taken(torch::optim::SGD({parameters[0], parameters[1], parameters[0]},
                                           torch::optim::SGDOptions(0.1).momentum(0.9))));
    torch::optim::SGD sparse(parameters, torch::optim::SGDOptions(0.1));
    make_gradients(parameters, 2);
    parameters[0].mutable_grad() = parameters[0].grad().to_sparse();
    CHECK_FALSE(step_by_foreach(sparse));
  }
}

}  // namespace foreach_step_test
