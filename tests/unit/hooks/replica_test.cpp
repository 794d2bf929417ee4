#include "hooks/replica_driver.h"
#include "hooks/todo.h"
#include "tests/support/tiny_hooks.h"
#include "tests/support/torch_prelude.h"

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
    CHECK_THROWS_WITH_AS(replica.apply_gradients(torch::tensor(1.0), "a"),
                         doctest::Contains("depends on no parameter"), troupe::ConfigError);
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
    };
    CHECK_THROWS_WITH_AS(troupe::check_no_open_todos(HalfFilled()),
                         doctest::Contains("TODO 4: create_model. TODO 6: train_step."),
                         troupe::TodoError);
    CHECK_NOTHROW(troupe::check_no_open_todos(troupe::testing::TinyHooks()));
    CHECK(troupe::TodoError("", "").exit_code() == 2);
  }
}
