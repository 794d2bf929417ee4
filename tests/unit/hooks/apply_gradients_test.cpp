// What apply_gradients does with the parts of a step, and with gradients that are too long.
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/hooks/gradient_norm.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/hooks/replica_driver.h"

using troupe::detail::ReplicaDriver;

namespace {

/// Leaves gradients as they are; keeps what they were.
class Recorder final : public troupe::ParameterUpdate {
 public:
  void reduce(const std::vector<troupe::NamedTensor>& parameters) override {
    const auto& gradient = parameters[0].second.grad();
    reduced.push_back(gradient.defined() ? gradient.sum().item<double>() : -1);
  }
  std::vector<double> reduced;
};

troupe::Trainable one_weight() {
  torch::nn::Linear line(torch::nn::LinearOptions(1, 1).bias(false));
  return {line.ptr(), std::make_shared<torch::optim::SGD>(line->parameters(), 0.0)};
}

troupe::StepOptions parts_of(std::int64_t parts) {
  troupe::StepOptions options;
  options.accumulate = parts;
  return options;
}

/// Calls apply_gradients with a loss whose gradient is `gradient`.
void apply(troupe::Replica& replica, double gradient) {
  const auto& weight = replica.model<torch::nn::LinearImpl>().weight;
  replica.apply_gradients(replica.local_loss(weight.sum() * gradient));
}

void begin_part(troupe::Replica& replica, std::int64_t part, std::int64_t parts,
                bool padding = false) {
  ReplicaDriver(replica).begin_step({troupe::Phase::train, 1, 1, padding, part, parts});
}

}  // namespace

TEST_SUITE("hooks") {
  TEST_CASE("apply_gradients: one reduction for all parts, and no second update of an optimiser") {
    Recorder recorder;
    troupe::Replica replica(one_weight(), {}, {}, {}, recorder, parts_of(3));
    for (const int step : {0, 1}) {
      for (std::int64_t part = 0; part < 3; ++part) {
        begin_part(replica, part, 3);
        apply(replica, 1 + static_cast<double>(part));
        CHECK(recorder.reduced.size() == (part < 2 ? 1U * step : 1U * step + 1));
      }
      ReplicaDriver(replica).end_step();
    }
    CHECK(recorder.reduced == std::vector<double>{6, 6});
    begin_part(replica, 0, 3);
    apply(replica, 1);
    CHECK_THROWS_WITH_AS(apply(replica, 100),
                         doctest::Contains("took two steps of optimizer \"optimizer\""),
                         troupe::ConfigError);
  }

  TEST_CASE("apply_gradients: padding batches add nothing, whichever part they are") {
    for (std::int64_t absent = 0; absent < 3; ++absent) {
      Recorder recorder;
      troupe::Replica replica(one_weight(), {}, {}, {}, recorder, parts_of(3));
      for (std::int64_t part = 0; part < 3; ++part) {
        begin_part(replica, part, 3, part == absent);
        apply(replica, 10);
      }
      CHECK(recorder.reduced == std::vector<double>{20});
    }
    Recorder recorder;
    troupe::Replica replica(one_weight(), {}, {}, {}, recorder, parts_of(2));
    for (std::int64_t part = 0; part < 2; ++part) {
      begin_part(replica, part, 2, /*padding=*/true);
      apply(replica, 10);
    }
    CHECK(recorder.reduced == std::vector<double>{-1});  // no gradient at all
  }

  TEST_CASE("apply_gradients: a call that the first part has not made is refused") {
    Recorder recorder;
    troupe::Replica replica(one_weight(), {}, {}, {}, recorder, parts_of(2));
    begin_part(replica, 0, 2);
    ReplicaDriver(replica).check_result({});
    begin_part(replica, 1, 2);
    apply(replica, 1);
    CHECK_THROWS_WITH_AS(ReplicaDriver(replica).check_result({}),
                         doctest::Contains("and the first part for no optimiser"),
                         troupe::ConfigError);
  }

  TEST_CASE(
      "apply_gradients: a failed step leaves nothing to the next, and a forgotten call is named") {
    Recorder recorder;
    troupe::Replica replica(one_weight(), {}, {}, {}, recorder, parts_of(2));
    begin_part(replica, 0, 2);
    apply(replica, 5);  // and the step fails here
    begin_part(replica, 0, 2);
    apply(replica, 1);
    begin_part(replica, 1, 2);
    CHECK_THROWS_WITH_AS(
        ReplicaDriver(replica).check_result({}),
        doctest::Contains("part 2 of a step of 2 called apply_gradients for no optimiser, and the "
                          "first part for \"optimizer\""),
        troupe::ConfigError);
    apply(replica, 1);
    CHECK_NOTHROW(ReplicaDriver(replica).check_result({}));
    CHECK_NOTHROW(ReplicaDriver(replica).end_step());
    CHECK(recorder.reduced == std::vector<double>{2});
  }

  TEST_CASE("apply_gradients: a clipped gradient has the limit's norm and its own direction") {
    Recorder recorder;
    troupe::StepOptions options;
    options.clip_norm = 2;
    troupe::Replica replica(one_weight(), {}, {}, {}, recorder, options);
    CHECK_FALSE(replica.gradient_norm().has_value());
    const auto gradient = [&] {
      return replica.model<torch::nn::LinearImpl>().weight.grad().item<float>();
    };
    begin_part(replica, 0, 1);
    apply(replica, -8);
    CHECK(replica.gradient_norm() == 8.0);
    CHECK(gradient() == -2.0F);
    apply(replica, 1.5);
    CHECK(replica.gradient_norm() == 1.5);
    CHECK(gradient() == 1.5F);
  }

  TEST_CASE(
      "gradient_norm: LibTorch's number, whatever the threads, and sparse rows add up first") {
    torch::manual_seed(3);
    std::vector<troupe::NamedTensor> parameters;
    std::vector<at::Tensor> tensors;
    for (const std::int64_t size : {1, 7, 100'003}) {
      at::Tensor parameter = torch::zeros({size}, torch::requires_grad());
      parameter.mutable_grad() = torch::randn({size}) * 3;
      parameters.emplace_back("p", parameter);
      tensors.push_back(parameter);
    }
    parameters.emplace_back("unused", torch::zeros({2}, torch::requires_grad()));
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const double norm = troupe::detail::gradient_norm(parameters);
    at::set_num_threads(4);
    CHECK(troupe::detail::gradient_norm(parameters) == norm);
    at::set_num_threads(threads);
    CHECK(torch::nn::utils::clip_grad_norm_(tensors, 1e9) == doctest::Approx(norm).epsilon(1e-6));

    at::Tensor table = torch::zeros({5, 2}, torch::requires_grad());
    table.mutable_grad() = torch::sparse_coo_tensor(
        torch::tensor({{1, 1}}), torch::tensor({{1.0F, 2.0F}, {2.0F, 2.0F}}), {5, 2});
    const std::vector<troupe::NamedTensor> sparse = {{"table", table}};
    CHECK(troupe::detail::gradient_norm(sparse) == 5.0);
    troupe::detail::scale_gradients(sparse, 0.5);
    CHECK(table.grad().is_sparse());
    CHECK(troupe::detail::gradient_norm(sparse) == 2.5);

    at::Tensor huge = torch::zeros({2}, torch::dtype(torch::kFloat64).requires_grad(true));
    huge.mutable_grad() = torch::full({2}, 1e200, torch::kFloat64);
    CHECK_THROWS_AS((void)troupe::detail::gradient_norm({{"huge", huge}}), troupe::NonFiniteError);
  }

  TEST_CASE("step options: what is out of range is named") {
    const auto refused = [](const auto& change, const char* part) {
      troupe::StepOptions options;
      change(options);
      CHECK_THROWS_WITH_AS(options.validate(), doctest::Contains(part), troupe::ConfigError);
    };
    refused([](auto& o) { o.accumulate = 0; }, "--accumulate is 0");
    refused([](auto& o) { o.clip_norm = -1; }, "--clip-norm is -1");
    refused([](auto& o) { o.clip_norm = NAN; }, "--clip-norm is");
    CHECK_NOTHROW(troupe::StepOptions().validate());
  }

  TEST_CASE("autocast: a forward pass without gradients takes none from the next one") {
    Recorder recorder;
    torch::nn::Linear line(2, 2);
    troupe::StepOptions options;
    options.precision = troupe::Precision::bfloat16;
    const troupe::Trainable made = {line.ptr(),
                                    std::make_shared<torch::optim::SGD>(line->parameters(), 0.1)};
    troupe::Replica replica(made, {}, {}, {}, recorder, options);
    begin_part(replica, 0, 1);
    const troupe::detail::ReplicaScope scope(replica);
    {
      const torch::NoGradGuard no_grad;
      (void)line(torch::ones({1, 2}));
    }
    const auto y = line(torch::ones({1, 2}, torch::requires_grad()));
    CHECK((y.scalar_type() == torch::kBFloat16));
    replica.apply_gradients(replica.local_loss(y.sum()));
    CHECK(line->weight.grad().defined());
    CHECK(line->bias.grad().defined());
  }
}
