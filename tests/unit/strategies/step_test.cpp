// The features of one step on any strategy: accumulation, clipping, precision.
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/kinds/make_strategy.h"

namespace step_test {

using troupe::StepOptions;
using troupe::StrategyOptions;
using namespace troupe::testing;  // NOLINT: a test

namespace {

Outcome take_all(troupe::Strategy& strategy, const troupe::Hooks& hooks) {
  Outcome outcome;
  auto state = strategy.create_state(hooks, 1);
  outcome.losses = take_steps(strategy, hooks, state);
  outcome.hash = troupe::common_parameter_hash(strategy, state);
  strategy.close();
  return outcome;
}

Outcome train(int replicas, const StepOptions& step, const troupe::Hooks& hooks) {
  StrategyOptions options = mirrored_options(replicas);
  options.step = step;
  return take_all(*troupe::make_strategy(options), hooks);
}

std::vector<Outcome> train_group(int size, int replicas, const StepOptions& step,
                                 const troupe::Hooks& hooks) {
  return on_workers(
      size, [&](troupe::Strategy& strategy) { return take_all(strategy, hooks); },
      [&](StrategyOptions& options) {
        options.replicas = replicas;
        options.step = step;
      });
}

void check_equal(const Outcome& outcome, const Outcome& expected) {
  check_near(outcome.losses, expected.losses);
}

/// A bottleneck for gradients of 8 units, classes as targets.
class Classifier : public TinyHooks {
 public:
  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 8));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 3));
    at::Tensor forward(const at::Tensor& x) { return out(torch::relu(in(x))); }
  };
  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"cross_entropy", [](const at::Tensor& logits, const at::Tensor& labels) {
               return torch::nn::functional::cross_entropy(
                   logits, labels,
                   torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
             }}};
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters()) {
      parameter.copy_(
          torch::cos(torch::arange(parameter.numel(), torch::kFloat32)).view(parameter.sizes()));
    }
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.1)};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = loss_of(replica, batch);
    replica.apply_gradients(loss);
    seen(replica, batch, loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto loss = loss_of(replica, batch);
    seen(replica, batch, loss);
    return loss;
  }

 protected:
  virtual void seen(troupe::Replica&, const troupe::Batch&, const at::Tensor&) const {}

 private:
  static at::Tensor loss_of(troupe::Replica& replica, const troupe::Batch& batch) {
    const auto logits = replica.model<Net>().forward(batch.fields[0]);
    const auto labels = (batch.fields[0].squeeze(1) * 10).round().to(torch::kInt64).remainder(3);
    replica.metric("absolute_error").update(logits);
    return replica.global_mean(replica.loss("cross_entropy")(logits, labels));
  }
};

/// Two models with an optimiser each; every replica trains another one.
class TwoOfEach final : public SideLayer {
 public:
  explicit TwoOfEach(int width_of_b) : width_of_b_(width_of_b) {}
  [[nodiscard]] troupe::Trainable create_model() const override {
    torch::nn::Linear a(1, 1);
    torch::nn::Linear b(1, width_of_b_);
    return troupe::Trainable()
        .add_model("a", a.ptr())
        .add_model("b", b.ptr())
        .add_optimizer("a", std::make_shared<torch::optim::SGD>(a->parameters(), 0.1))
        .add_optimizer("b", std::make_shared<torch::optim::SGD>(b->parameters(), 0.1));
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const std::string name = replica.place().index == 0 ? "a" : "b";
    const auto y = replica.model<torch::nn::LinearImpl>(name).forward(batch.fields[0]);
    const auto loss = replica.global_mean(y.sum(1));
    replica.apply_gradients(loss, name);
    return loss;
  }

 private:
  int width_of_b_;
};

void check_other_updates(const TwoOfEach& hooks) {
  const auto errors =
      try_workers(2, [&](int, troupe::Strategy& strategy) { (void)take_all(strategy, hooks); });
  const char* const named[] = {"\"a.weight\"", "\"b.weight\""};
  for (const std::size_t rank : {0U, 1U}) {
    REQUIRE(errors[rank]);
    const std::string message = message_of(errors[rank]);
    CAPTURE(message);
    CHECK(message.find(named[rank]) != std::string::npos);
    CHECK_THROWS_AS(std::rethrow_exception(errors[rank]), troupe::DesyncError);
  }
  for (const char* part : named) {
    CHECK_THROWS_WITH_AS(train(2, {}, hooks), doctest::Contains(part), troupe::DesyncError);
  }
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("accumulate: any number of parts takes the steps of one, on any number of replicas") {
    const TinyHooks hooks(10);  // batches of 4, 4 and 2: with more parts, some have no example
    const Outcome expected = train(1, {}, hooks);
    REQUIRE(expected.losses.size() == 9);
    for (const std::int64_t parts : {2, 3, 4, 9}) {
      CAPTURE(parts);
      StepOptions step;
      step.accumulate = parts;
      for (const int replicas : {1, 2, 3}) check_equal(train(replicas, step, hooks), expected);
      for (const Outcome& outcome : train_group(2, 2, step, hooks)) check_equal(outcome, expected);
    }
  }

  TEST_CASE("clip_norm: replicas and workers take the clipped steps of one device") {
    StepOptions step;
    step.clip_norm = 0.5;
    const TinyHooks hooks(10);
    const Outcome expected = train(1, step, hooks);
    CHECK(expected.losses.back() > train(1, {}, hooks).losses.back() * 1.01);  // smaller steps
    for (const std::int64_t parts : {1, 3}) {
      step.accumulate = parts;
      for (const int replicas : {1, 2, 4}) check_equal(train(replicas, step, hooks), expected);
      const auto group = train_group(2, 2, step, hooks);
      for (const Outcome& outcome : group) check_equal(outcome, expected);
      CHECK(group[0].hash == group[1].hash);
    }
  }

  TEST_CASE("clip_norm: the norm is the same on every replica, and a high limit changes no bit") {
    class Norms final : public TinyHooks {
     public:
      explicit Norms(std::vector<double>& norms) : norms_(norms) {}
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        auto result = TinyHooks::train_step(replica, batch);
        norms_[static_cast<std::size_t>(replica.place().index)] = *replica.gradient_norm();
        return result;
      }

     private:
      std::vector<double>& norms_;
    };
    std::vector<double> norms(3);
    StepOptions step;
    step.clip_norm = 1e9;
    CHECK(train(3, step, Norms(norms)).hash == train(3, {}, TinyHooks()).hash);
    CHECK(norms[0] > 0);
    CHECK(norms[1] == norms[0]);
    CHECK(norms[2] == norms[0]);
  }

  TEST_CASE("accumulate: a parameter that nobody, or one replica in one part, used") {
    StepOptions step;
    step.accumulate = 2;
    step.clip_norm = 0.5;
    class Checked : public SideLayer {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        auto result = SideLayer::train_step(replica, batch);
        const auto& side = replica.model<torch::nn::LinearImpl>("side");
        if (side.weight.grad().defined()) throw std::runtime_error("side has a gradient");
        if (side.weight.item<float>() != 0.25F) throw std::runtime_error("side has changed");
        return result;
      }
    };
    const Outcome unused = train(2, step, Checked());
    CHECK(train_group(2, 1, step, Checked())[1].hash == unused.hash);
    class OncePerStep final : public SideLayer {
     public:
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                                  const troupe::Batch& batch) const override {
        auto loss = forward(replica, batch);
        if (replica.place().index == 1 &&
            troupe::detail::ReplicaDriver(replica).context().part == 0) {
          const auto& x = batch.fields[0];
          loss = loss + replica.global_mean(
                            replica.model<torch::nn::LinearImpl>("side").forward(x).squeeze(1));
        }
        replica.apply_gradients(loss);
        return loss;
      }
    };
    const Outcome used = train(2, step, OncePerStep());
    CHECK(used.hash != unused.hash);
    CHECK(train_group(2, 1, step, OncePerStep())[0].hash == used.hash);
  }

  TEST_CASE("precision: forward in bfloat16, and loss, gradients and parameters in float32") {
    class Types final : public Classifier {
     private:
      void seen(troupe::Replica& replica, const troupe::Batch& batch,
                const at::Tensor& loss) const override {
        const auto require = [](bool condition, const char* what) {
          if (!condition) throw std::runtime_error(what);
        };
        auto& net = replica.model<Net>();
        require(loss.scalar_type() == torch::kFloat32, "the loss is not float32");
        const auto logits = net.forward(batch.fields[0]);
        require(logits.scalar_type() == torch::kBFloat16, "the forward pass is not in bfloat16");
        for (const auto& parameter : net.parameters()) {
          require(parameter.scalar_type() == torch::kFloat32, "a parameter is not float32");
          require(!parameter.grad().defined() || parameter.grad().scalar_type() == torch::kFloat32,
                  "a gradient is not float32");
        }
        // After the update, the forward pass uses the new weights, not casts of the old ones.
        const auto w = net.in->weight.to(torch::kBFloat16);
        const auto hidden = net.in->forward(batch.fields[0]);
        const auto expected =
            batch.fields[0].to(torch::kBFloat16).to(torch::kFloat32) * w.to(torch::kFloat32).t() +
            net.in->bias.to(torch::kBFloat16).to(torch::kFloat32);
        require(torch::allclose(hidden.to(torch::kFloat32), expected, 1e-2, 1e-2),
                "the forward pass uses old weights");
      }
    };
    StepOptions step;
    const auto exact = train(1, step, Classifier());
    step.precision = troupe::Precision::bfloat16;
    for (const int replicas : {1, 2}) {
      const auto small = train(replicas, step, Types());
      for (std::size_t i = 0; i < exact.losses.size(); ++i) {
        CHECK(small.losses[i] == doctest::Approx(exact.losses[i]).epsilon(0.02));
        CHECK(small.losses[i] != exact.losses[i]);
      }
      const auto after = torch::mm(torch::ones({1, 1}), torch::ones({1, 1}));
      CHECK((after.scalar_type() == torch::kFloat32));
    }
  }

  TEST_CASE("replicas of different workers in different updates end at once, both named") {
    // 1: the sums have the same size, and nothing but what they are for tells them apart.
    for (const int width_of_b : {2, 1}) check_other_updates(TwoOfEach(width_of_b));
  }
}

}  // namespace step_test
