// Estimator::train: limits, checkpoints and who is told of them, roles, warm start.
#include <array>
#include <fstream>
#include <map>

#include "tests/support/captured_log.h"
#include "tests/support/counter_hooks.h"
#include "tests/support/free_port.h"
#include "tests/support/run_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/torch_prelude.h"
#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/strategies/kinds/multi_worker.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/loop.h"

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_below(const fs::path& dir) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) files.push_back(entry.path());
  return files;
}

double value_of(const troupe::Estimator& estimator, const std::string& name) {
  return estimator.variable_value(name).item<double>();
}

/// Parameters "x" and "y", "frozen" that is not trained, and a buffer "seen".
class FourTensors final : public CounterHooks {
 public:
  struct Net final : torch::nn::Module {
    explicit Net(double value) {
      const auto filled = [value] { return torch::full({1}, value); };
      register_parameter("x", filled());
      register_parameter("y", filled());
      register_parameter("frozen", filled(), /*requires_grad=*/false);
      register_buffer("seen", filled());
    }
  };
  explicit FourTensors(double value) : value_(value) {}
  [[nodiscard]] troupe::Trainable create_model() const override {
    return troupe::Trainable().add_model("model", std::make_shared<Net>(value_));
  }

 private:
  double value_;
};

/// What FourTensors(36) has after five steps that start warm.
std::map<std::string, double> warm_started(const troupe::WarmStart& warm_start) {
  const TempDir dir;
  const FourTensors hooks(36);
  auto options = options_in(dir.path());
  options.train.warm_start = warm_start;
  troupe::Estimator estimator(hooks, options);
  (void)estimator.train(for_steps(5));
  CHECK(latest_step(estimator) == 5);
  std::map<std::string, double> values;
  for (const auto& name : estimator.variable_names()) values[name] = value_of(estimator, name);
  return values;
}

/// An action that exists on the chief alone.
class ChiefOnly final : public troupe::PeriodicAction {
 public:
  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { ++begun; }
  void after_step(const troupe::StepReport&, troupe::RunControl&) override {}
  int begun = 0;
};

}  // namespace

TEST_SUITE("estimator") {
  TEST_CASE("train: steps are relative: 5, and 5 more, are 10") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    CHECK(latest_step(estimator) == -1);
    CHECK(estimator.train(for_steps(5)).steps == 5);
    CHECK(latest_step(estimator) == 5);
    CHECK(estimator.train(for_steps(5)).steps == 5);
    CHECK(latest_step(estimator) == 10);
    troupe::Estimator another(hooks, options_in(dir.path()));
    (void)another.train(for_steps(5));
    CHECK(latest_step(estimator) == 15);
  }

  TEST_CASE("train: max_steps is absolute, and once reached nothing is made or written") {
    const TempDir dir;
    class OneModel final : public CounterHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        ++models;
        return CounterHooks::create_model();
      }
      mutable int models = 0;
    };
    const OneModel hooks;
    auto options = options_in(dir.path());
    options.train.save_summary_steps = 1;
    troupe::Estimator estimator(hooks, options);
    CHECK(estimator.train(up_to(5)).steps == 5);
    const auto files = files_below(dir.path());
    const auto written = fs::last_write_time(dir / "model.ckpt-5");
    for (const std::int64_t limit : {5, 3}) {
      const auto actions = std::make_shared<StepRecorder>();
      const auto listener = std::make_shared<SaveRecorder>();
      auto again = up_to(limit);
      again.callbacks = {{actions}, {listener}};
      CHECK(estimator.train(again).steps == 0);
      CHECK(actions->begun == 0);
      CHECK(listener->begun == 0);
    }
    CHECK(latest_step(estimator) == 5);
    CHECK(hooks.models == 1);
    CHECK(files_below(dir.path()) == files);
    CHECK(fs::last_write_time(dir / "model.ckpt-5") == written);
    CHECK(estimator.train(up_to(7)).steps == 2);
  }

  TEST_CASE("train: steps and max_steps below 1, and both, are refused") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    for (const std::int64_t bad : {0, -1}) {
      CHECK_THROWS_WITH_AS((void)estimator.train(for_steps(bad)), doctest::Contains("steps is"),
                           troupe::ConfigError);
      CHECK_THROWS_WITH_AS((void)estimator.train(up_to(bad)), doctest::Contains("max_steps is"),
                           troupe::ConfigError);
    }
    auto both = for_steps(1);
    both.max_steps = 1;
    CHECK_THROWS_WITH_AS((void)estimator.train(both), doctest::Contains("both"),
                         troupe::ConfigError);
    CHECK(fs::is_empty(dir.path()));
  }

  TEST_CASE("train: five steps leave checkpoints 0 and 5 under names that may be moved") {
    const TempDir dir;
    const CounterHooks hooks(3);
    {
      troupe::Estimator estimator(hooks, options_in(dir / "run"));
      (void)estimator.train(for_steps(5));
    }
    troupe::PosixFileSystem files((dir / "run").string());
    const auto index = troupe::read_index(files);
    REQUIRE(index);
    CHECK(index->latest == 5);
    CHECK(index->retained == Steps{0, 5});
    std::ifstream file(dir / "run" / troupe::kIndexName);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CHECK(text.find("model.ckpt-5") != std::string::npos);
    CHECK(text.find('/') == std::string::npos);
    fs::rename(dir / "run", dir / "moved");
    troupe::Estimator moved(hooks, options_in(dir / "moved"));
    CHECK(value_of(moved, "weight") == 3);
    (void)moved.train(for_steps(5));
    CHECK(latest_step(moved) == 10);
  }

  TEST_CASE("train: 26 steps with a period of 10 are saved at 0, 10, 20 and 26") {
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 10));
    const auto listener = std::make_shared<SaveRecorder>();
    auto call = for_steps(26);
    call.callbacks.listeners = {listener};
    (void)estimator.train(call);
    CHECK(listener->before == Steps{0, 10, 20, 26});
    CHECK(listener->after == Steps{0, 10, 20, 26});
    CHECK(listener->complete);
    CHECK(listener->ends == Steps{26});
    // As if there had been no stop at 26. Where the last step is a multiple of the period, it is
    // saved once.
    const auto second = std::make_shared<SaveRecorder>();
    call = up_to(40);
    call.callbacks.listeners = {second};
    (void)estimator.train(call);
    CHECK(second->before == Steps{30, 40});
    CHECK(second->after == Steps{26, 30, 40});
  }

  TEST_CASE("train: two listeners are told of the same checkpoints, in list order") {
    class Ordered final : public troupe::SavingListener {
     public:
      Ordered(std::string name, std::string& calls) : name_(std::move(name)), calls_(calls) {}
      void begin() override { calls_ += name_ + "begin "; }
      void before_save(std::int64_t step) override { note("before", step); }
      bool after_save(const troupe::SavedCheckpoint& saved) override {
        note("after", saved.step);
        return false;
      }
      void end(const troupe::SavedCheckpoint& saved) override { note("end", saved.step); }

     private:
      void note(const char* what, std::int64_t step) {
        calls_ += troupe::text(name_, what, step, " ");
      }
      std::string name_;
      std::string& calls_;
    };
    const TempDir dir;
    const CounterHooks hooks;
    troupe::Estimator estimator(hooks, options_in(dir.path(), 1));
    std::string calls;
    auto call = for_steps(2);
    call.callbacks.listeners = {std::make_shared<Ordered>("a:", calls),
                                std::make_shared<Ordered>("b:", calls)};
    (void)estimator.train(call);
    CHECK(calls ==
          "a:begin b:begin a:before0 b:before0 a:after0 b:after0 a:before1 b:before1 a:after1 "
          "b:after1 a:before2 b:before2 a:after2 b:after2 a:end2 b:end2 ");
  }

  TEST_CASE("train: listeners where nothing is saved are refused") {
    const TempDir dir;
    const CounterHooks hooks;
    auto call = for_steps(1);
    call.callbacks.listeners = {std::make_shared<SaveRecorder>()};
    auto by_seconds = options_in(dir.path());
    by_seconds.train.save_checkpoints_secs = 0;
    for (const auto& options : {options_in(dir.path(), 0), by_seconds}) {
      troupe::Estimator estimator(hooks, options);
      CHECK_THROWS_WITH_AS((void)estimator.train(call), doctest::Contains("never saved"),
                           troupe::ConfigError);
    }
    troupe::Estimator without(hooks, options_in(dir.path(), 0));
    CHECK(without.train(for_steps(3)).steps == 3);
    CHECK(latest_step(without) == -1);
  }

  TEST_CASE("train: another worker than the chief does not begin a chief-only action") {
    const auto port = free_port();
    std::array<int, 2> chief_only{};
    std::array<int, 2> ordinary{};
    run_ranks(2, [&](int rank) {
      const CounterHooks hooks;
      troupe::StrategyOptions strategy_options;
      strategy_options.cluster.rank = rank;
      strategy_options.cluster.members = {{"worker/0", troupe::Endpoint{"127.0.0.1", port}},
                                          {"worker/1", std::nullopt}};
      strategy_options.group.secret = troupe::testing::test_secret();
      const auto strategy = troupe::make_multi_worker(strategy_options);
      auto state = strategy->create_state(hooks, 1);
      const auto data = strategy->distribute(hooks.create_datasets(), {1, 1});
      troupe::TrainOptions options = options_in({}).train;
      options.max_steps = 2;
      const auto on_chief = std::make_shared<ChiefOnly>();
      const auto everywhere = std::make_shared<StepRecorder>();
      (void)troupe::train(*strategy, hooks, state, data, options, {{on_chief, everywhere}, {}});
      strategy->close();
      const auto at = static_cast<std::size_t>(rank);
      chief_only.at(at) = on_chief->begun;
      ordinary.at(at) = everywhere->begun + everywhere->ended;
    });
    CHECK(chief_only == std::array<int, 2>{1, 0});
    CHECK(ordinary == std::array<int, 2>{2, 2});
  }

  TEST_CASE("train: an evaluator or a parameter server does not train") {
    const TempDir dir;
    const CounterHooks hooks;
    for (const bool serves : {false, true}) {
      auto options = options_in(dir.path());
      troupe::Cluster& cluster = options.strategy.cluster;
      if (serves) {
        cluster.servers = {{"ps/0", troupe::Endpoint{"127.0.0.1", 1}}};
        cluster.server = 0;
      } else {
        cluster.evaluator = troupe::detail::Evaluator::self;
      }
      troupe::Estimator estimator(hooks, options);
      CHECK_THROWS_WITH_AS((void)estimator.train(for_steps(1)),
                           doctest::Contains("train_and_evaluate"), troupe::ConfigError);
    }
  }

  TEST_CASE("train: a warm start copies weights and counts from 0") {
    const TempDir source;
    const FourTensors old(42);
    troupe::Estimator before(old, options_in(source.path()));
    (void)before.train(for_steps(8));
    const std::string from = source.path().string();

    using Values = std::map<std::string, double>;
    // All parameters and buffers; of a model directory, a checkpoint in it, or one of its files.
    const Values all{{"x", 42}, {"y", 42}, {"frozen", 42}, {"seen", 42}};
    CHECK(warm_started({from}) == all);
    CHECK(warm_started({from + "/model.ckpt-0"}) == all);
    CHECK(warm_started({from + "/model.ckpt-0/model.safetensors"}) == all);
    // By expressions, over parameters and buffers, the whole name.
    CHECK(warm_started({from, {"x"}}) ==
          Values{{"x", 42}, {"y", 36}, {"frozen", 36}, {"seen", 36}});
    CHECK(warm_started({from, {"fro.*", "s..n", "[yz]"}}) ==
          Values{{"x", 36}, {"y", 42}, {"frozen", 42}, {"seen", 42}});
    CHECK_THROWS_WITH_AS(warm_started({from, {"x", "z"}}), doctest::Contains("\"z\" matches no"),
                         troupe::ConfigError);
  }

  TEST_CASE("train: a warm start finds weights under their previous names") {
    const TempDir source;
    const CounterHooks old(42);
    troupe::Estimator before(old, options_in(source.path()));
    (void)before.train(for_steps(1));
    class Renamed final : public CounterHooks {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        auto made = CounterHooks(36).create_model();
        return troupe::Trainable().add_model("net", made.models.front().second);
      }
    };
    const TempDir dir;
    const Renamed hooks;
    auto options = options_in(dir.path());
    options.train.warm_start.from = source.path().string();
    options.train.warm_start.variables = {"net.weight"};
    options.train.warm_start.previous_names = {{"net.weight", "weight"}};
    troupe::Estimator estimator(hooks, options);
    (void)estimator.train(for_steps(5));
    CHECK(value_of(estimator, "net.weight") == 42);
    CHECK(value_of(estimator, "net.bias") == 36);

    const TempDir other;
    options.train.model_dir = other.path().string();
    options.train.warm_start.previous_names = {{"net.weight", "missing"}};
    troupe::Estimator wrong(hooks, options);
    CHECK_THROWS_WITH_AS((void)wrong.train(for_steps(1)), doctest::Contains("has no net.weight"),
                         troupe::CheckpointError);
  }

  TEST_CASE("train: a checkpoint of the run's own comes before a warm start") {
    const TempDir source;
    const TempDir dir;
    const CounterHooks old(42);
    const CounterHooks own(36);
    (void)troupe::Estimator(old, options_in(source.path())).train(for_steps(1));
    (void)troupe::Estimator(own, options_in(dir.path())).train(for_steps(2));
    auto options = options_in(dir.path());
    options.train.warm_start.from = source.path().string();
    troupe::Estimator estimator(own, options);
    const CapturedLog log;
    (void)estimator.train(for_steps(1));
    CHECK(log.count("is not used, because this training has begun") == 1);
    CHECK(latest_step(estimator) == 3);
    CHECK(value_of(estimator, "weight") == 36);
  }

  TEST_CASE("train: a warm start from nothing, or by a bad expression, is refused at once") {
    const TempDir dir;
    const CounterHooks hooks;
    auto options = options_in(dir.path());
    options.train.warm_start.variables = {"x"};
    CHECK_THROWS_AS(troupe::Estimator(hooks, options), troupe::ConfigError);
    options.train.warm_start = {"somewhere", {"("}};
    CHECK_THROWS_WITH_AS(troupe::Estimator(hooks, options), doctest::Contains("\"(\""),
                         troupe::ConfigError);
    options.train.warm_start = {(dir / "missing").string()};
    troupe::Estimator estimator(hooks, options);
    CHECK_THROWS_AS((void)estimator.train(for_steps(1)), troupe::CheckpointError);
  }

  TEST_CASE("estimator: without model_dir a new temporary directory is used, with a warning") {
    const CounterHooks hooks;
    const CapturedLog log;
    troupe::Estimator estimator(hooks, options_in({}));
    const fs::path dir = estimator.config().model_dir;
    CHECK(fs::is_empty(dir));
    CHECK(log.count(" W ") == 1);
    CHECK(log.has(dir.string()));
    troupe::Estimator another(hooks, options_in({}));
    CHECK(another.config().model_dir != dir);
    (void)estimator.train(for_steps(1));
    CHECK(latest_step(estimator) == 1);
    fs::remove_all(dir);
    fs::remove_all(another.config().model_dir);
  }

  TEST_CASE("train: only the newest checkpoints are kept") {
    const TempDir dir;
    const CounterHooks hooks;
    auto options = options_in(dir.path(), 5);
    options.train.keep_checkpoint_max = 2;
    troupe::Estimator estimator(hooks, options);
    (void)estimator.train(for_steps(21));
    for (const auto& [step, there] : std::map<std::int64_t, bool>{
             {0, false}, {5, false}, {10, false}, {15, false}, {20, true}, {21, true}}) {
      CAPTURE(step);
      CHECK(fs::exists(dir / troupe::text("model.ckpt-", step)) == there);
    }
  }

  TEST_CASE("estimator: variables are the newest checkpoint's, and need one") {
    const TempDir dir;
    const FourTensors hooks(7);
    troupe::Estimator estimator(hooks, options_in(dir.path()));
    CHECK_FALSE(estimator.latest_checkpoint());
    CHECK_THROWS_WITH_AS((void)estimator.variable_names(), doctest::Contains("no checkpoint"),
                         troupe::ConfigError);
    CHECK_THROWS_AS((void)estimator.variable_value("x"), troupe::ConfigError);
    (void)estimator.train(for_steps(1));
    auto names = estimator.variable_names();
    std::sort(names.begin(), names.end());
    CHECK(names == std::vector<std::string>{"frozen", "seen", "x", "y"});
    CHECK(value_of(estimator, "seen") == 7);
    CHECK_THROWS_WITH_AS((void)estimator.variable_value("z"), doctest::Contains("frozen"),
                         troupe::ConfigError);
  }
}
