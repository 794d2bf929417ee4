// Batch norm over the global batch: against LibTorch's own on one device, value by value.
#include "troupe/hooks/sync_batch_norm.h"

#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/strategies/kinds/one_process.h"

namespace sync_batch_norm_test {

using troupe::SyncBatchNorm;
using namespace troupe::testing;  // NOLINT: a test

namespace {

bool close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return torch::allclose(a, b, tolerance, tolerance);
}

/// Both layers on `x`: outputs, all gradients and running statistics.
template <class Norm>
void check_alone(const at::Tensor& x, const torch::nn::BatchNormOptions& options) {
  Norm theirs(options);
  SyncBatchNorm ours(options);
  if (options.affine()) {
    const torch::NoGradGuard no_grad;
    const auto channels = x.size(1);
    for (auto* weight : {&theirs->weight, &ours->weight}) {
      weight->copy_(torch::linspace(0.5, 2, channels));
    }
    for (auto* bias : {&theirs->bias, &ours->bias}) bias->copy_(torch::linspace(-1, 1, channels));
  }
  const auto weights = torch::sin(torch::arange(x.numel(), torch::kFloat32)).view(x.sizes());
  for (int call = 0; call < 3; ++call) {
    const auto a = (x * (call + 1.0)).detach().requires_grad_();
    const auto b = a.detach().clone().requires_grad_();
    const auto y = theirs->forward(a);
    const auto z = ours->forward(b);
    CHECK(close(y, z, 1e-6));
    (y.pow(2) * weights).sum().backward();
    (z.pow(2) * weights).sum().backward();
    CHECK(close(a.grad(), b.grad(), 2e-6));
  }
  const auto expected = theirs->named_parameters();
  for (const auto& item : ours->named_parameters()) {
    CHECK(close(item->grad(), expected[item.key()].grad(), 1e-5));
  }
  CHECK(ours->named_buffers().size() == theirs->named_buffers().size());
  for (const auto& item : ours->named_buffers()) {
    CHECK(close(item.value(), theirs->named_buffers()[item.key()], 1e-6));
  }
  theirs->eval();
  ours->eval();
  CHECK(close(theirs->forward(x), ours->forward(x), 1e-6));
}

struct Net final : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 4));
  SyncBatchNorm norm = register_module("norm", SyncBatchNorm(4));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(4, 1));
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(norm(in(x)))); }
};

/// Batches of 4, 4 and 2 of 10 examples.
class NormHooks : public TinyHooks {
 public:
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) {
      parameter.copy_(torch::cos(torch::arange(parameter.numel(), torch::kFloat32) * 2 + 0.5)
                          .view(parameter.sizes()));
    }
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(),
                                                     torch::optim::SGDOptions(0.02).momentum(0.9))};
  }

 protected:
  [[nodiscard]] at::Tensor output(troupe::Replica& replica, const at::Tensor& x) const override {
    return replica.model<Net>().forward(x);
  }
};

/// What a training ends with: losses, then every parameter, gradient and buffer of a replica.
struct Ending {
  std::vector<double> losses;
  std::vector<at::Tensor> tensors;
};

Ending train(troupe::Strategy& strategy, const troupe::Hooks& hooks, std::int64_t batch_size = 4) {
  auto state = strategy.create_state(hooks, 1);
  Ending ending;
  ending.losses = take_steps(strategy, hooks, state, batch_size);
  const auto& last = *state.replicas.back();
  for (const auto& [name, tensor] : last.parameters()) {
    ending.tensors.push_back(tensor.detach().clone());
    ending.tensors.push_back(tensor.grad().clone());
  }
  const auto buffers = last.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {  // the same everywhere without being exchanged
    CHECK(torch::equal(buffers[i].second, state.replicas.front()->buffers()[i].second));
    ending.tensors.push_back(buffers[i].second.clone());
  }
  strategy.close();
  return ending;
}

void check_equal(const Ending& ending, const Ending& expected) {
  check_near(ending.losses, expected.losses, 1e-5);
  REQUIRE(ending.tensors.size() == expected.tensors.size());
  for (std::size_t i = 0; i < expected.tensors.size(); ++i) {
    CAPTURE(i);
    CHECK(close(ending.tensors[i], expected.tensors[i], 1e-5));
  }
}

}  // namespace

TEST_SUITE("sync_batch_norm") {
  TEST_CASE("sync_batch_norm: alone it is LibTorch's batch norm") {
    using Options = torch::nn::BatchNormOptions;
    torch::manual_seed(7);
    check_alone<torch::nn::BatchNorm1d>(torch::randn({6, 3}) + 5, Options(3));
    check_alone<torch::nn::BatchNorm1d>(torch::randn({4, 3, 5}), Options(3).eps(1e-2));
    check_alone<torch::nn::BatchNorm2d>(torch::randn({3, 2, 4, 5}), Options(2).momentum(0.3));
    check_alone<torch::nn::BatchNorm2d>(torch::randn({3, 2, 4, 5}).transpose(2, 3),
                                        Options(2).momentum(c10::nullopt));
    check_alone<torch::nn::BatchNorm3d>(torch::randn({2, 2, 3, 2, 2}), Options(2).affine(false));
    check_alone<torch::nn::BatchNorm1d>(torch::randn({6, 3}),
                                        Options(3).track_running_stats(false));
  }

  TEST_CASE("sync_batch_norm: what it cannot do is said") {
    SyncBatchNorm norm(3);
    CHECK_THROWS_WITH_AS(norm->forward(torch::ones({2, 4})), doctest::Contains("[2, 4]"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS(norm->forward(torch::ones({1, 3})),
                         doctest::Contains("one value per channel"), troupe::ConfigError);
    const auto x = torch::randn({4, 3}, torch::requires_grad());
    CHECK_THROWS_WITH_AS((void)torch::autograd::grad({norm->forward(x).pow(2).sum()}, {x}, {},
                                                     c10::nullopt, /*create_graph=*/true),
                         doctest::Contains("no second derivative"), troupe::ConfigError);
    std::ostringstream text;
    text << *norm;
    CHECK(text.str().find("SyncBatchNorm(3, eps=1e-05, momentum=0.1") != std::string::npos);
  }

  TEST_CASE("sync_batch_norm: any number of replicas and workers is one device, stand-ins too") {
    const NormHooks hooks;
    for (const std::int64_t batch_size : {4, 10}) {
      CAPTURE(batch_size);
      const Ending expected = train(*troupe::make_one_device({}), hooks, batch_size);
      for (const int replicas : {2, 3, 4}) {
        CAPTURE(replicas);
        check_equal(train(*troupe::make_mirrored(mirrored_options(replicas)), hooks, batch_size),
                    expected);
      }
      for (const int replicas : {1, 2}) {
        const auto endings = on_workers(
            3, [&](troupe::Strategy& strategy) { return train(strategy, hooks, batch_size); },
            [&](auto& options) { options.replicas = replicas; });
        for (const Ending& ending : endings) check_equal(ending, expected);
      }
    }
  }

  TEST_CASE("sync_batch_norm: parts of a step have statistics of their own, and nothing hangs") {
    auto options = mirrored_options(4);
    // Shares of 3, 3, 2 and 2: in the third part two replicas stand in, in the others all do.
    options.step.accumulate = 5;
    const Ending ending = train(*troupe::make_mirrored(options), NormHooks(), 10);
    CHECK(ending.losses.back() < ending.losses.front());
    CHECK(ending.tensors.back().item<std::int64_t>() == 9);  // 3 steps of 3 parts with examples
  }

  TEST_CASE("sync_batch_norm: a replica that leaves a layer out is found at once, by its name") {
    class Skipping final : public NormHooks {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        if (replica.place().index == 0) return NormHooks::train_step(replica, batch);
        auto& net = replica.model<Net>();
        const auto loss = replica.global_mean(net.out(net.in(batch.fields[0])).squeeze(1));
        replica.apply_gradients(loss);
        return loss;
      }
    };
    CHECK_THROWS_WITH_AS(train(*troupe::make_mirrored(mirrored_options(2)), Skipping()),
                         doctest::Contains("SyncBatchNorm forward (4 channels)"),
                         troupe::DesyncError);
    CHECK_THROWS_WITH_AS(train(*troupe::make_mirrored(mirrored_options(2)), Skipping()),
                         doctest::Contains("in apply_gradients (6 parameters from \"in.weight\""),
                         troupe::DesyncError);
    const auto errors =
        try_workers(2, [](int, troupe::Strategy& strategy) { (void)train(strategy, Skipping()); });
    const char* const named[] = {"SyncBatchNorm forward (4 channels)", "\"in.weight\""};
    for (const std::size_t rank : {0U, 1U}) {
      const std::string message = message_of(errors[rank]);
      CAPTURE(message);
      CHECK(message.find(named[rank]) != std::string::npos);
    }
  }
}

}  // namespace sync_batch_norm_test
