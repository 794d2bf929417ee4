// examples/muon: an optimiser of one's own takes the steps of its reference in NumPy on every kind
// of strategy, is saved and resumed bit for bit, and is served; what is not registered is refused.
#include "examples/muon/muon.h"

#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/server_runs.h"
#include "troupe/hooks/parameter_update.h"
#include "troupe/strategies/parameter_server/served_parameters.h"

using troupe::testing::asynchronous;
using troupe::testing::mirrored_options;
using troupe::testing::synchronous;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;
using troupe::testing::train_alone;
using troupe::testing::train_job;

namespace {

constexpr std::int64_t kExamples = 12;
constexpr std::int64_t kSteps = 10;

/// Fixed numbers between -1 and 1, as muon_reference.py makes them.
torch::Tensor wave(at::IntArrayRef shape, double frequency) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return torch::sin(frequency * (1 + torch::arange(count, torch::kFloat64))).view(shape);
}

/// The reference's network and data.
class ReferenceHooks : public troupe::Hooks {
 public:
  struct Net final : torch::nn::Module {
    torch::Tensor b1 = register_parameter("b1", 0.1 * wave({7}, 2.9));
    torch::Tensor b2 = register_parameter("b2", 0.1 * wave({2}, 3.7));
    torch::Tensor w1 = register_parameter("w1", 0.5 * wave({7, 3}, 1.9));
    torch::Tensor w2 = register_parameter("w2", 0.5 * wave({2, 7}, 2.3));
    [[nodiscard]] torch::Tensor forward(const torch::Tensor& x) const {
      return torch::tanh(x.mm(w1.t()) + b1).mm(w2.t()) + b2;
    }
  };

  [[nodiscard]] troupe::LossSet create_losses() const override {
    return {{"squared_error", [](const at::Tensor& y, const at::Tensor& target) {
               return (y - target).pow(2).sum(1);
             }}};
  }
  [[nodiscard]] troupe::Trainable create_model() const override {
    const auto net = std::make_shared<Net>();
    using Group = torch::optim::OptimizerParamGroup;
    const auto options = MuonOptions(0.02).weight_decay(0.1);
    std::vector<Group> groups;
    groups.emplace_back(std::vector<torch::Tensor>{net->w1, net->w2},
                        std::make_unique<MuonOptions>(options));
    groups.emplace_back(
        std::vector<torch::Tensor>{net->b1, net->b2},
        std::make_unique<MuonOptions>(MuonOptions(options).lr(0.003).orthogonal(false)));
    return {net, std::make_shared<Muon>(groups)};
  }
  [[nodiscard]] troupe::Splits create_datasets() const override {
    const auto all = std::make_shared<troupe::TensorDataset>(
        std::vector<at::Tensor>{wave({kExamples, 3}, 0.7), wave({kExamples, 2}, 1.3)});
    return {all, nullptr, all};
  }
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = validation_step(replica, batch).losses.front().second;
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                   const troupe::Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<Net>().forward(x);
    return replica.global_mean(replica.loss("squared_error")(y, target));
  }
};

/// The numbers that tests/interop/muon_reference.py printed, by name; the losses in their order.
std::map<std::string, std::vector<double>> reference() {
  std::ifstream file(std::string(TROUPE_SOURCE_DIR) + "/tests/golden/muon.txt");
  std::map<std::string, std::vector<double>> values;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) values[name].push_back(value);
  }
  REQUIRE(values["loss"].size() == kSteps);
  REQUIRE(values["w1"].size() == 21);
  return values;
}

/// The whole data in each step.
troupe::TrainOptions ten_steps(std::int64_t steps = kSteps) {
  troupe::TrainOptions options;
  options.max_steps = steps;
  options.batch_size = kExamples;
  options.progress = false;
  options.log_every = 0;
  return options;
}
troupe::TrainOptions in_directory(const TempDir& dir, std::int64_t steps) {
  troupe::TrainOptions options = ten_steps(steps);
  options.model_dir = dir.path().string();
  options.save_checkpoints_steps = 100;
  return options;
}

/// What the chief's training ends with.
struct End {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> parameters;
};

End train_by(troupe::Strategy& strategy) {
  const ReferenceHooks hooks;
  troupe::TrainOptions options = ten_steps();
  options.log_every = 1;  // losses are reduced for the steps that somebody looks at
  End end;
  auto state = strategy.create_state(hooks, options.seed);
  const auto data = strategy.distribute(hooks.create_datasets(), options.batches());
  troupe::Actions actions;
  actions.push_back(std::make_unique<troupe::testing::Losses>(end.losses));
  (void)troupe::train(strategy, hooks, state, data, options, {std::move(actions), {}});
  for (const auto& [name, value] : state.replicas[0]->parameters()) {
    end.parameters[name] = value.detach().clone();
  }
  strategy.close();
  return end;
}

void check_parameters(const End& end) {
  const auto expected = reference();
  REQUIRE(end.parameters.size() == 4);
  for (const auto& [name, value] : end.parameters) {
    CAPTURE(name);
    const auto wanted = torch::tensor(expected.at(name), torch::kFloat64).view(value.sizes());
    CHECK((value - wanted).abs().max().item<double>() < 1e-9);
  }
}

void check_losses(const End& end) {
  const auto expected = reference().at("loss");
  REQUIRE(end.losses.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(end.losses[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("muon: ten steps are the reference's on one device, replicas and workers") {
    SUBCASE("one device") {
      const End end = train_by(*troupe::make_one_device({}));
      check_losses(end);
      check_parameters(end);
    }
    SUBCASE("mirrored, with shares that differ") {
      for (const int replicas : {2, 5}) {
        const End end = train_by(*troupe::make_mirrored(mirrored_options(replicas)));
        check_losses(end);
        check_parameters(end);
      }
    }
    SUBCASE("virtual replicas") {
      troupe::StrategyOptions options = mirrored_options(2);
      options.virtual_replicas = 4;
      const End end = train_by(*troupe::make_mirrored(options));
      check_losses(end);
      check_parameters(end);
    }
    SUBCASE("two workers") {
      const auto port = troupe::testing::free_port();
      troupe::testing::run_ranks(2, [&](int rank) {
        const End end =
            train_by(*troupe::make_multi_worker(troupe::testing::options_of(rank, 2, port)));
        check_losses(end);
        check_parameters(end);
      });
    }
  }

  TEST_CASE("muon: ten steps are the reference's on parameter servers") {
    for (const auto& job : {synchronous(2, 2), synchronous(1, 3)}) {
      troupe::testing::run_job(job, ReferenceHooks(), [&](int rank, troupe::Strategy& strategy) {
        const End end = train_by(strategy);
        if (rank == 0) check_parameters(end);
        if (job.workers == 1) check_losses(end);  // of two, each reports its own examples'
      });
    }
  }

  TEST_CASE("muon: servers hold its parameters whole, and the state of each") {
    class NoUpdate final : public troupe::ParameterUpdate {
    } update;
    const ReferenceHooks hooks;
    troupe::Replica replica(hooks.create_model(), {}, {}, {}, update);
    troupe::ServerOptions options;
    options.min_shard_bytes = 8;
    const auto served = troupe::detail::serve(replica, options, 4);
    CHECK(served.model.shards.size() == 4);  // not one of w1's seven rows alone
    const auto mirrored = troupe::make_mirrored(mirrored_options(2));
    const auto expected = train_alone(*mirrored, hooks, ten_steps()).hash;
    CHECK(train_job(synchronous(2, 3), hooks, ten_steps()).hash == expected);
  }

  TEST_CASE("muon: resumed at every step equals uninterrupted, bit for bit") {
    const ReferenceHooks hooks;
    const auto strategies = {1, 2};
    for (const int replicas : strategies) {
      const auto make = [&] { return troupe::make_mirrored(mirrored_options(replicas)); };
      const auto expected = train_alone(*make(), hooks, ten_steps()).hash;
      for (const std::int64_t stop : {1, 4, 9}) {
        const TempDir dir;
        (void)train_alone(*make(), hooks, in_directory(dir, stop));
        CHECK(train_alone(*make(), hooks, in_directory(dir, kSteps)).hash == expected);
      }
    }
    const auto expected = train_job(synchronous(2, 2), hooks, ten_steps()).hash;
    const TempDir dir;
    (void)train_job(synchronous(2, 2), hooks, in_directory(dir, 4));
    CHECK(train_job(synchronous(2, 3), hooks, in_directory(dir, kSteps)).hash == expected);
  }

  TEST_CASE("muon: one asynchronous worker takes its steps, too") {
    auto job = asynchronous(1, 2);
    const ReferenceHooks hooks;
    CHECK(train_job(job, hooks, ten_steps()).hash ==
          train_alone(*troupe::make_one_device({}), hooks, ten_steps()).hash);
  }

  TEST_CASE("muon: a bias in an orthogonal group is refused") {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({3})});
    CHECK_THROWS_WITH_AS((void)std::make_shared<Muon>(groups),
                         doctest::Contains("orthogonal(false)"), troupe::ConfigError);
  }
}
