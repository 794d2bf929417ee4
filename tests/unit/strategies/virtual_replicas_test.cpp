// Virtual replicas: the width is no part of the numbers. Without random layers: the ranks of these
// tests are threads of one process, which share LibTorch's generator (tests/process has them).
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <utility>

#include "tests/support/temp_dir.h"
#include "tests/unit/strategies/strategy_runs.h"
#include "troupe/hooks/sync_batch_norm.h"
#include "troupe/strategies/gradients/replica_sum.h"
#include "troupe/strategies/kinds/make_strategy.h"
#include "troupe/strategies/replicas/random_fill.h"
#include "troupe/strategies/tensor_sums.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace virtual_replicas_test {

using namespace troupe;           // NOLINT: a test
using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Ranks that are threads share the generator that initial weights are drawn from.
void fix_weights(torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : model.parameters()) {
    const at::Tensor numbers = torch::arange(1, parameter.numel() + 1, torch::kFloat32);
    parameter.copy_((numbers * 1.7).sin().view(parameter.sizes()));
  }
}

/// Batch norm, whose buffers differ between virtual replicas, two models with an optimiser each, of
/// which one takes two steps, and a table that nobody changes and a third of which is no 1/3.
class NormHooks : public TinyHooks {
 public:
  explicit NormHooks(std::int64_t examples = 22) : TinyHooks(examples) {}

  struct Net final : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(1, 8));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
    torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 1));
    torch::Tensor table = register_buffer("table", torch::tensor({0.1F, 0.7F, 1.3F}));
    torch::Tensor forward(const torch::Tensor& x) {
      return out(torch::relu(norm(in(x).view({-1, 4, 2})).view({-1, 8})));
    }
  };

  [[nodiscard]] Trainable create_model() const override {
    auto net = std::make_shared<Net>();
    auto side = std::make_shared<torch::nn::LinearImpl>(1, 1);
    fix_weights(*net);
    fix_weights(*side);
    return Trainable()
        .add_model("model", net)
        .add_model("side", side)
        .add_optimizer("optimizer", std::make_shared<torch::optim::Adam>(
                                        net->parameters(), torch::optim::AdamOptions(0.02)))
        .add_optimizer("side",
                       std::make_shared<torch::optim::SGD>(
                           side->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)));
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const auto y = replica.model<torch::nn::LinearImpl>("side").forward(batch.fields[0]);
    replica.apply_gradients(
        replica.global_mean(replica.loss("squared_error")(y, batch.fields[1] * side_factor())),
        "side");
    StepResult result = validation_step(replica, batch);
    replica.apply_gradients(result.losses.front().second);
    return result;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    const auto [x, target] = batch.unpack<2>();
    const auto y = replica.model<Net>().forward(x);
    replica.metric("absolute_error").update((y - target).abs());
    return {{"loss", replica.global_mean(replica.loss("squared_error")(y, target))},
            {"side", replica.global_mean((y * target).squeeze(1))}};
  }

 protected:
  [[nodiscard]] virtual double side_factor() const { return 1; }
};

enum class Remembers { loss, metric, gradient };

/// Each step depends on how many came before it.
class RememberingHooks final : public NormHooks {
 public:
  explicit RememberingHooks(Remembers what) : what_(what) {}

  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    StepResult result = NormHooks::train_step(replica, batch);
    const int calls = ++calls_;
    if (what_ == Remembers::loss) result.losses.back().second = result.losses.back().second + calls;
    if (what_ == Remembers::metric) replica.metric("absolute_error").update(torch::tensor({calls}));
    return result;
  }

 private:
  [[nodiscard]] double side_factor() const override {
    return what_ == Remembers::gradient ? 1 + calls_ * 0.1 : 1;
  }

  const Remembers what_;
  mutable std::atomic<int> calls_{0};
};

/// What a run ends with; compared bit for bit.
struct Ending {
  std::string hash;
  std::vector<double> losses;   // of every step
  std::vector<double> reports;  // of the last epoch, the last validation and the test
  bool operator==(const Ending& other) const {
    return hash == other.hash && losses == other.losses && reports == other.reports;
  }
};

void append(std::vector<double>& numbers, const Report& report) {
  for (const auto& [name, loss] : report.losses) numbers.push_back(loss);
  for (const MetricValue& metric : report.metrics) numbers.push_back(metric.value);
}

struct Run {
  int virtual_replicas = 8;
  int workers = 1;
  int replicas = 1;
  Transport transport = Transport::automatic;
  StepOptions step;
  TrainOptions train;
  bool check_repeat = false;
};

TrainOptions train_options() {
  TrainOptions options;
  options.epochs = 3;
  options.batch_size = 9;
  options.log_every = 1;  // or no losses reach the action
  options.progress = false;
  options.ema_decay = 0.9;
  options.check_weights_every = 1;
  options.schedule.kind = Schedule::plateau;
  options.schedule.patience = 1;
  return options;
}

Ending train_once(Strategy& strategy, const Hooks& hooks, const TrainOptions& options) {
  Ending ending;
  TrainState state = strategy.create_state(hooks, options.seed);
  const auto data =
      strategy.distribute(hooks.create_datasets(), {options.batch_size, options.seed});
  Actions actions;
  actions.push_back(std::make_shared<Losses>(ending.losses));
  const History history =
      troupe::train(strategy, hooks, state, data, options, {std::move(actions), {}});
  if (history.train) append(ending.reports, *history.train);
  if (history.validation) append(ending.reports, *history.validation);
  append(ending.reports, test(strategy, hooks, state, data).value());
  ending.hash = common_parameter_hash(strategy, state);
  for (const auto& replica : state.replicas) CHECK(parameter_hash(*replica) == ending.hash);
  strategy.close();
  return ending;
}

Ending train_on(const Run& run, const Hooks& hooks) {
  std::vector<Ending> endings(static_cast<std::size_t>(run.workers));
  const auto port = run.workers == 1 ? std::uint16_t{0} : free_port();
  run_ranks(run.workers, [&](int rank) {
    StrategyOptions options =
        run.workers == 1 ? StrategyOptions() : options_of(rank, run.workers, port);
    options.replicas = run.replicas;
    options.virtual_replicas = run.virtual_replicas;
    options.group.transport = run.transport;
    options.step = run.step;
    options.check_repeat = run.check_repeat;
    const auto strategy = make_strategy(options);
    TrainOptions own = run.train;
    if (rank != 0) own.metrics_file.clear();
    endings[static_cast<std::size_t>(rank)] = train_once(*strategy, hooks, own);
  });
  for (const Ending& ending : endings) CHECK(ending == endings.front());
  return endings.front();
}

Run run_of(int virtual_replicas, int workers, int replicas = 1,
           Transport transport = Transport::automatic) {
  Run run;
  run.virtual_replicas = virtual_replicas;
  run.workers = workers;
  run.replicas = replicas;
  run.transport = transport;
  run.step.clip_norm = 0.5;
  run.train = train_options();
  return run;
}

void check_refused(const std::function<void(StrategyOptions&)>& change, const char* expected) {
  StrategyOptions options;
  options.virtual_replicas = 8;
  change(options);
  CHECK_THROWS_WITH_AS((void)make_strategy(options), doctest::Contains(expected), ConfigError);
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("virtual replicas: the same bits on any number of workers and replicas") {
    // Batches of 9, 9 and 4 on 8: some have two examples, some one, and some none.
    const NormHooks hooks;
    const Ending expected = train_on(run_of(8, 1), hooks);
    CHECK(expected.losses.size() == 9);
    CHECK(train_on(run_of(8, 1), hooks) == expected);
    CHECK(train_on(run_of(8, 2), hooks) == expected);
    CHECK(train_on(run_of(8, 3, 1, Transport::tcp), hooks) == expected);
    CHECK(train_on(run_of(8, 5, 1, Transport::unix_socket), hooks) == expected);
    CHECK(train_on(run_of(8, 1, 2), hooks) == expected);
    CHECK(train_on(run_of(8, 1, 3), hooks) == expected);
    CHECK(train_on(run_of(8, 2, 2), hooks) == expected);
    CHECK(!(train_on(run_of(4, 1), hooks) == expected));  // the number of shares is in the numbers
    const Ending of_seven = train_on(run_of(7, 1), hooks);
    CHECK(train_on(run_of(7, 3), hooks) == of_seven);
    CHECK(train_on(run_of(7, 4), hooks) == of_seven);
  }

  TEST_CASE("virtual replicas: in parts and in bfloat16, too") {
    const NormHooks hooks;
    for (const bool half : {false, true}) {
      Run alone = run_of(6, 1);
      alone.step.accumulate = 2;
      alone.step.precision = half ? Precision::bfloat16 : Precision::float32;
      Run spread = alone;
      spread.workers = 4;
      CHECK(train_on(spread, hooks) == train_on(alone, hooks));
    }
  }

  TEST_CASE("virtual replicas: as many as workers take the steps of plain replicas") {
    const TinyHooks hooks(10);
    for (const int workers : {2, 3, 4}) {
      Run run = run_of(workers, workers);
      run.train.schedule = {};
      Run plain = run;
      plain.virtual_replicas = 0;
      CHECK(train_on(run, hooks).hash == train_on(plain, hooks).hash);
    }
  }

  TEST_CASE("virtual replicas: resumed at any width equals uninterrupted, bit for bit") {
    const NormHooks hooks;
    Run whole = run_of(8, 1);
    const TempDir undisturbed;
    whole.train.model_dir = undisturbed.path().string();
    const Ending expected = train_on(whole, hooks);
    const TempDir dir;
    const std::vector<std::pair<int, int>> widths = {{1, 1}, {3, 1}, {1, 2}, {2, 1}, {5, 1}};
    for (std::size_t i = 0; i < widths.size(); ++i) {
      Run part = run_of(8, widths[i].first, widths[i].second);
      part.train.model_dir = dir.path().string();
      const bool last = i + 1 == widths.size();
      if (!last) part.train.max_steps = 2 * static_cast<std::int64_t>(i + 1);
      const Ending ending = train_on(part, hooks);
      if (!last) continue;
      CHECK(ending.hash == expected.hash);
      CHECK(ending.reports == expected.reports);
    }
    const auto checkpoint = dir.path() / checkpoint_name(9);
    CHECK(std::filesystem::exists(checkpoint / "common.safetensors"));
    CHECK(!std::filesystem::exists(checkpoint / "worker-0.safetensors"));
    Run other = run_of(4, 1);
    other.train.model_dir = dir.path().string();
    CHECK_THROWS_WITH((void)train_on(other, hooks),
                      doctest::Contains("made with --virtual-replicas 8, now it is 4"));
    other.virtual_replicas = 0;
    CHECK_THROWS_WITH((void)train_on(other, hooks),
                      doctest::Contains("made with --virtual-replicas 8, now it is 0"));
  }

  TEST_CASE("virtual replicas: --check-repeat changes no bit, and names what does not repeat") {
    Run run = run_of(8, 2);
    const NormHooks hooks;
    const Ending expected = train_on(run, hooks);
    run.check_repeat = true;
    CHECK(train_on(run, hooks) == expected);
    const auto check_named = [&run](Remembers what, const char* name) {
      CHECK_THROWS_WITH((void)train_on(run, RememberingHooks(what)), doctest::Contains(name));
    };
    check_named(Remembers::loss, ", and the loss \"side\" was ");
    check_named(Remembers::metric, ", and the digest of its metrics' sums was ");
    check_named(Remembers::gradient,
                "step 1 was computed twice (--check-repeat), and the digest of the gradients for "
                "the optimiser "
                "\"side\" was ");
  }

  TEST_CASE("virtual replicas: what would make the bits depend on the width is refused by name") {
    check_refused([](auto& o) { o.compress = Compression::float16; }, "--compress float16 and");
    check_refused([](auto& o) { o.buckets.overlap = Overlap::on; }, "--overlap on and");
    if (troupe::detail::engine_lacks(Communication::gloo).empty()) {
      check_refused([](auto& o) { o.communication = Communication::gloo; },
                    "--communication gloo and --virtual-replicas 8 do not go together");
    }
    check_refused(
        [](auto& o) {
          o.check_repeat = true;
          o.virtual_replicas = 0;
        },
        "--check-repeat is given without --virtual-replicas");
    check_refused([](auto& o) { o.kind = StrategyKind::central_storage; },
                  "--strategy central-storage has none");
    check_refused([](auto& o) { o.replicas = 9; }, "would host 8, fewer than its 9 replicas");
    check_refused(
        [](auto& o) {
          o.cluster.members.resize(9);
          o.cluster.members[8].task = "worker/8";
        },
        "--virtual-replicas 8 is fewer than the 9 workers");
  }

  TEST_CASE("virtual replicas: draws of replicas that share a generator are refused") {
    class Drawing final : public TinyHooks {
     public:
      Drawing(double dropped, bool draws) : dropped_(dropped), draws_(draws) {}
      [[nodiscard]] Trainable create_model() const override {
        torch::nn::Sequential net(torch::nn::Linear(1, 1), torch::nn::Dropout(dropped_));
        return {net.ptr(), std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
      }
      [[nodiscard]] at::Tensor output(Replica& replica, const at::Tensor& x) const override {
        if (draws_) (void)torch::randn({1});
        return replica.model<torch::nn::SequentialImpl>().forward(x);
      }

     private:
      double dropped_;
      bool draws_;
    };
    const auto train_on = [](int replicas, const Hooks& hooks) {
      StrategyOptions options = mirrored_options(replicas);
      options.virtual_replicas = 8;
      (void)train_alone(*make_strategy(options), hooks, quiet_options(2, 8));
    };
    const char* const refused = "on the CPU, where 2 replicas share LibTorch's one generator";
    CHECK_THROWS_WITH_AS(train_on(2, Drawing(0.5, false)), doctest::Contains(refused), ConfigError);
    CHECK_THROWS_WITH_AS(train_on(2, Drawing(0, true)), doctest::Contains(refused), ConfigError);
    CHECK_NOTHROW(train_on(2, Drawing(0, false)));
    CHECK_NOTHROW(train_on(1, Drawing(0.5, true)));
  }

  TEST_CASE("virtual replicas: SyncBatchNorm needs a device for each") {
    class Synchronised final : public TinyHooks {
     public:
      Synchronised() : TinyHooks(9) {}
      [[nodiscard]] Trainable create_model() const override {
        torch::nn::Sequential net(torch::nn::Linear(1, 2), SyncBatchNorm(2),
                                  torch::nn::Linear(2, 1));
        fix_weights(*net);
        return {net.ptr(), std::make_shared<torch::optim::SGD>(net->parameters(), 0.01)};
      }
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        auto loss = validation_step(replica, batch);
        replica.apply_gradients(loss.losses.front().second);
        return loss;
      }
      [[nodiscard]] StepResult validation_step(Replica& replica,
                                               const Batch& batch) const override {
        const auto [x, target] = batch.unpack<2>();
        const auto y = replica.model<torch::nn::SequentialImpl>().forward(x);
        replica.metric("absolute_error").update((y - target).abs());
        return replica.global_mean(replica.loss("squared_error")(y, target));
      }
    };
    CHECK_THROWS_WITH((void)train_on(run_of(4, 1, 2), Synchronised()),
                      doctest::Contains("needs all replicas at the same time"));
    CHECK(train_on(run_of(4, 1, 4), Synchronised()) == train_on(run_of(4, 2, 2), Synchronised()));
  }

  TEST_CASE("TreeSum: tensors one after the other give the sum along the tree") {
    for (int count = 1; count <= 70; ++count) {
      torch::manual_seed(static_cast<std::uint64_t>(count));
      std::vector<at::Tensor> leaves;
      troupe::detail::TreeSum sum;
      for (int i = 0; i < count; ++i) {
        leaves.push_back(torch::randn({9}) * std::pow(10.0, i % 7));
        sum.push(leaves.back());
      }
      const at::Tensor expected = troupe::detail::sum_in_rank_order(leaves);
      CHECK(sum.take().equal(expected));
    }
  }

  TEST_CASE("fill_generators: numbers depend on every part of the key, and on nothing else") {
    const c10::Device cpu(c10::DeviceType::CPU);
    const auto draw = [&](std::initializer_list<std::uint64_t> key) {
      troupe::detail::fill_generators(cpu, key);
      return torch::cat({torch::randn({3}), torch::rand({700}), torch::randn({17})});
    };
    const at::Tensor first = draw({1, 0, 5, 2});
    (void)torch::randn({1});  // leaves half of a pair of normal numbers behind
    CHECK(draw({1, 0, 5, 2}).equal(first));
    for (const auto& other : {draw({2, 0, 5, 2}), draw({1, 1, 5, 2}), draw({1, 0, 6, 2}),
                              draw({1, 0, 5, 3}), draw({1, 0, 2, 5}), draw({1, 0, 5})}) {
      CHECK(!other.equal(first));
    }
    const at::Tensor uniform = torch::rand({20'000});
    CHECK(uniform.mean().item<double>() == doctest::Approx(0.5).epsilon(0.02));
  }
}

}  // namespace virtual_replicas_test
