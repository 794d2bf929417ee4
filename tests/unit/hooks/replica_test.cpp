#include <optional>

#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/hooks/todo.h"

using troupe::detail::ReplicaDriver;

namespace {

/// Leaves gradients as they are and counts.
class CountingReduction final : public troupe::ParameterUpdate {
 public:
  void reduce(const std::vector<troupe::NamedTensor>& parameters) override {
    ++calls;
    names.clear();
    for (const auto& [name, parameter] : parameters) names.push_back(name);
  }
  int calls = 0;
  std::vector<std::string> names;
};

/// Two models and two optimisers, as a GAN has.
troupe::Trainable two_of_each() {
  torch::nn::Linear a(1, 1);
  torch::nn::Linear b(1, 1);
  return troupe::Trainable()
      .add_model("a", a.ptr())
      .add_model("b", b.ptr())
      .add_optimizer("a", std::make_shared<torch::optim::SGD>(a->parameters(), 0.1))
      .add_optimizer("b", std::make_shared<torch::optim::SGD>(b->parameters(), 0.1));
}

}  // namespace

TEST_SUITE("hooks") {
  TEST_CASE("replica: the mean is taken over the examples of all replicas") {
    CountingReduction reduction;
    troupe::Replica replica(two_of_each(), {}, {}, {}, reduction);
    ReplicaDriver(replica).begin_step(
        {troupe::Phase::train, /*global_examples=*/4, /*examples=*/2});
    // The example of tf.distribute's guide: losses {2, 3} and {4, 5}, global batch 4.
    CHECK(replica.global_mean(torch::tensor({2.0, 3.0})).item<double>() == 1.25);
    CHECK(replica.global_mean(torch::tensor({4.0, 5.0})).item<double>() == 2.25);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(torch::tensor(2.5)),
                         doctest::Contains("shape []"), troupe::ConfigError);
  }

  TEST_CASE("replica: a mean with weights is divided by those of all replicas, summed once") {
    /// Another replica brings weights of 6 and nothing else.
    class WithAnother final : public troupe::ParameterUpdate {
     public:
      void sum(const at::Tensor& flat, const std::string&) override {
        flat.add_(6.0);
        ++sums;
      }
      int sums = 0;
    };
    WithAnother update;
    troupe::Replica replica(two_of_each(), {}, {}, {}, update);
    ReplicaDriver driver(replica);
    driver.begin_step({troupe::Phase::train, /*global_examples=*/4, /*examples=*/2});
    const auto losses = torch::tensor({{2.F, 3.F}, {4.F, 5.F}});
    const auto mask = torch::tensor({{true, true}, {true, false}}).logical_not();
    const auto half = torch::full({2, 2}, 0.5);
    const auto first = replica.global_mean(losses, half);
    CHECK(first.item<double>() == 14 * 0.5 / 8);
    CHECK(replica.global_mean(losses * 2, half).item<double>() == 2 * first.item<double>());
    CHECK(update.sums == 1);
    const auto masked = replica.global_mean(losses, mask);
    CHECK(masked.item<double>() == doctest::Approx(5.0 / 7));
    CHECK(update.sums == 2);
    troupe::StepResult result{{"first", first}, {"masked", masked}, {"both", first + masked}};
    driver.describe(result);
    const std::vector<std::optional<double>> expected = {8.0, 7.0, std::nullopt};
    CHECK((result.weights == expected));

    CHECK_THROWS_WITH_AS((void)replica.global_mean(losses, mask.select(0, 0)),
                         doctest::Contains("losses of shape [2, 2] and weights of shape [2]"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(losses, at::Tensor()),
                         doctest::Contains("undefined"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(at::Tensor()),
                         doctest::Contains("global_mean was given a loss of shape undefined"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(torch::tensor(1.0), torch::tensor(1.0)),
                         doctest::Contains("of which no mean is taken"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(losses, losses - 2.5),
                         doctest::Contains("the lowest is -0.5"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(losses, losses / 0.0),
                         doctest::Contains("sum is inf"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)replica.global_mean(losses, torch::ones({2, 2}).requires_grad_()),
                         doctest::Contains("depend on parameters"), troupe::ConfigError);
    CHECK(update.sums == 2);  // who fails takes part in no sum
  }

  TEST_CASE("replica: apply_gradients changes the named optimiser's parameters alone") {
    CountingReduction reduction;
    troupe::Replica replica(two_of_each(), {}, {}, {}, reduction);
    ReplicaDriver(replica).begin_step({troupe::Phase::train, 1, 1});
    auto& a = replica.model<torch::nn::LinearImpl>("a");
    auto& b = replica.model<torch::nn::LinearImpl>("b");
    const auto a_before = a.weight.clone();
    const auto b_before = b.weight.clone();
    const auto y = b.forward(a.forward(torch::ones({1, 1})));
    replica.apply_gradients(replica.global_mean(y.squeeze(1)), "b");
    CHECK(torch::equal(a.weight, a_before));
    CHECK_FALSE(a.weight.grad().defined());
    CHECK_FALSE(torch::equal(b.weight, b_before));
    CHECK(reduction.names == std::vector<std::string>{"b.weight", "b.bias"});
  }

  TEST_CASE(
      "replica: a padding batch learns nothing and counts nothing, and takes part all the same") {
    CountingReduction reduction;
    const troupe::testing::TinyHooks hooks;
    troupe::Replica replica(hooks.create_model(), hooks.create_losses(), hooks.create_metrics(), {},
                            reduction);
    ReplicaDriver(replica).begin_step({troupe::Phase::train, 4, 2, /*padding=*/true});
    const auto before = replica.parameters().front().second.clone();
    const troupe::Batch batch{{torch::ones({2, 1}), torch::ones({2, 1})}, 4, true};
    (void)hooks.train_step(replica, batch);
    CHECK(reduction.calls == 1);
    CHECK(torch::equal(replica.parameters().front().second, before));
    CHECK(ReplicaDriver(replica).metrics(troupe::Phase::train).sums() == std::vector<double>{0, 0});
  }

  TEST_CASE("replica: misuse is named") {
    CountingReduction reduction;
    troupe::Replica replica(two_of_each(), {}, {}, {}, reduction);
    CHECK_THROWS_WITH_AS((void)replica.model<torch::nn::LinearImpl>("c"),
                         doctest::Contains("there is: a, b"), troupe::ConfigError);
    CHECK_THROWS_AS((void)replica.model<torch::nn::Conv2dImpl>("a"), troupe::ConfigError);
    ReplicaDriver(replica).begin_step({troupe::Phase::validation, 1, 1});
    CHECK_THROWS_WITH_AS(replica.apply_gradients(torch::tensor(1.0), "a"),
                         doctest::Contains("validation step"), troupe::ConfigError);
    ReplicaDriver(replica).begin_step({troupe::Phase::train, 1, 1});
    CHECK_THROWS_WITH_AS(replica.apply_gradients(torch::ones({2}), "a"),
                         doctest::Contains("of shape [2]"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(replica.apply_gradients(at::Tensor(), "a"), doctest::Contains("undefined"),
                         troupe::ConfigError);
    CHECK_THROWS_AS(troupe::Replica(troupe::Trainable(), {}, {}, {}, reduction),
                    troupe::ConfigError);
    torch::nn::Linear known(1, 1);
    torch::nn::Linear foreign(1, 1);
    const troupe::Trainable wrong(known.ptr(),
                                  std::make_shared<torch::optim::SGD>(foreign->parameters(), 0.1));
    CHECK_THROWS_WITH_AS(troupe::Replica(wrong, {}, {}, {}, reduction),
                         doctest::Contains("a parameter of no model"), troupe::ConfigError);
  }

  TEST_CASE("todo: all open hooks are listed, filled ones are left alone") {
    class HalfFilled final : public troupe::testing::TinyHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        return troupe::todo(4, "create_model");
      }
      [[nodiscard]] troupe::StepResult train_step(troupe::Replica&,
                                                  const troupe::Batch&) const override {
        return troupe::todo(6, "train_step");
      }
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica&,
                                                       const troupe::Batch&) const override {
        return troupe::todo(7, "validation_step");
      }
      [[nodiscard]] troupe::StepResult test_step(troupe::Replica& replica,
                                                 const troupe::Batch& batch) const override {
        return train_step(replica, batch);
      }
    };
    CHECK_THROWS_WITH_AS(
        troupe::check_no_open_todos(HalfFilled()),
        doctest::Contains("TODO 4: create_model. TODO 6: train_step. TODO 7: validation_step. Fix"),
        troupe::TodoError);
    CHECK_NOTHROW(troupe::check_no_open_todos(troupe::testing::TinyHooks()));
    CHECK(troupe::TodoError("", "").exit_code() == 2);
  }

  TEST_CASE("replica: a tensor of its own is a copy, no buffer, and checked") {
    CountingReduction reduction;
    const at::Tensor initial = torch::full({2}, 3.0F);
    const auto made = [&] { return two_of_each().add_own("environment", initial); };
    troupe::Replica one(made(), {}, {}, {}, reduction);
    troupe::Replica other(made(), {}, {}, {}, reduction);
    one.buffer("environment").add_(1);
    CHECK(one.buffer("environment")[1].item<float>() == 4);
    CHECK(other.buffer("environment")[1].item<float>() == 3);
    CHECK(initial[1].item<float>() == 3);
    CHECK(ReplicaDriver(one).own_tensors().size() == 1);
    for (const auto& [name, tensor] : troupe::detail::state_of(one)) CHECK(name != "environment");
    CHECK_THROWS_WITH_AS((void)one.buffer("world"), doctest::Contains("there is: environment"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)made().add_own("environment", initial),
                         doctest::Contains("two buffers are named"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)made().add_buffer("environment", initial),
                         doctest::Contains("two buffers are named"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)made().add_own("none", at::Tensor()),
                         doctest::Contains("no initial value"), troupe::ConfigError);
  }

  TEST_CASE("replica: hooks' own buffers are the model's last, each replica's own, and checked") {
    CountingReduction reduction;
    const at::Tensor initial = torch::full({2}, 3.0F);
    const auto made = [&] { return two_of_each().add_buffer("ema", initial); };
    troupe::Replica one(made(), {}, {}, {}, reduction);
    troupe::Replica other(made(), {}, {}, {}, reduction);
    one.buffer("ema").add_(1);
    CHECK(one.buffers().back().first == "ema");
    CHECK(one.buffers().back().second[1].item<float>() == 4);
    CHECK(other.buffer("ema")[1].item<float>() == 3);
    CHECK(initial[1].item<float>() == 3);
    CHECK_THROWS_WITH_AS((void)one.buffer("emma"), doctest::Contains("there is: ema"),
                         troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)made().add_buffer("ema", initial),
                         doctest::Contains("two buffers are named"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS((void)made().add_buffer("none", at::Tensor()),
                         doctest::Contains("no initial value"), troupe::ConfigError);
    CHECK_THROWS_WITH_AS(
        troupe::Replica(two_of_each().add_buffer("a.weight", initial), {}, {}, {}, reduction),
        doctest::Contains("a model's parameter or buffer"), troupe::ConfigError);
    const at::Tensor parameter = one.parameters().front().second;
    one.buffer("ema").copy_(parameter.flatten().expand({2}));
    CHECK_THROWS_WITH_AS(ReplicaDriver(one).end_step(), doctest::Contains("value.detach()"),
                         troupe::ConfigError);
  }

  TEST_CASE("replica: progress is the step's own") {
    CountingReduction reduction;
    troupe::Replica replica(two_of_each(), {}, {}, {}, reduction);
    ReplicaDriver(replica).begin_step({troupe::Phase::train, 1, 1, false, 1, 3, 17, 2});
    CHECK(replica.progress().step == 17);
    CHECK(replica.progress().epoch == 2);
    CHECK(replica.progress().part == 1);
    CHECK(replica.progress().parts == 3);
  }
}
