// A loop of one's own: its verbs, its boundaries, and what is refused.
#include "troupe/train/training_run.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/captured_log.h"
#include "tests/support/torch_prelude.h"
#include "tests/unit/train/loop_runs.h"
#include "troupe/core/log.h"
#include "troupe/data/stream.h"
#include "troupe/train/checkpoint/model_weights.h"
#include "troupe/train/evaluate.h"
#include "troupe/train/loop.h"

namespace training_run_test {

using namespace troupe::testing;  // NOLINT
using troupe::TrainingRun;

namespace {

/// troupe::train's loop.
void usual_loop(TrainingRun& run, Program& program) {
  for (auto& epoch : run.epochs()) {
    for (const auto& batch : epoch) {
      run.train_step(batch);
      program.moment();
    }
    (void)run.validate();
    program.moment();
  }
}

/// A gradient, or a loss alone, that is not finite at one step.
class Exploding final : public TinyHooks {
 public:
  enum class What { gradient, loss };
  Exploding(What what, int at) : what_(what), at_(at) {}
  [[nodiscard]] troupe::StepResult train_step(troupe::Replica& replica,
                                              const troupe::Batch& batch) const override {
    const auto loss = forward(replica, batch);
    const bool now = ++steps_ == at_;
    replica.apply_gradients(now && what_ == What::gradient ? loss / 0.0 : loss);
    return now ? loss.detach() / 0.0 : loss;
  }

 private:
  What what_;
  int at_;
  mutable int steps_ = 0;
};

/// The training examples come as a stream, two in a block.
class StreamedHooks final : public TinyHooks {
 public:
  using TinyHooks::TinyHooks;
  [[nodiscard]] troupe::Splits create_datasets() const override {
    troupe::Splits splits = TinyHooks::create_datasets();
    const auto read = [all = splits.train](std::int64_t block) {
      std::optional<std::vector<troupe::Example>> examples;
      if (2 * block >= all->size()) return examples;
      const auto fields = all->get(torch::arange(2 * block, 2 * block + 2));
      examples.emplace();
      for (std::int64_t i = 0; i < 2; ++i) examples->push_back({fields[0][i], fields[1][i]});
      return examples;
    };
    splits.train = std::make_shared<troupe::StreamDataset>(read);
    return splits;
  }
};

/// Remembers what it is told.
class Recorder final : public troupe::PeriodicAction {
 public:
  void after_step(const troupe::StepReport& report, troupe::RunControl&) override {
    told += troupe::text("step ", report.step, " ");
  }
  void after_epoch(std::int64_t epoch, const troupe::Report&,
                   const troupe::Report* validation) override {
    told += troupe::text("epoch ", epoch, validation == nullptr ? " " : "+validation ");
  }
  void after_log(std::int64_t step, std::int64_t, const std::string& name, double value) override {
    told += troupe::text(name, "=", value, "@", step, " ");
  }
  void end(troupe::RunControl&) override { told += "end"; }
  std::string told;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::int64_t> saved_in(const TempDir& dir) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 0; step < 100; ++step) {
    if (std::filesystem::exists(dir / troupe::text("model.ckpt-", step))) steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("run: the loop by verbs ends as troupe::train does, bit for bit") {
    const StatefulHooks hooks("Adam");
    const LoopEnding verbs = run_loop(hooks, loop_options(), usual_loop);
    Program program(hooks, loop_options());
    const auto history =
        troupe::train(*program.strategy, hooks, program.state, program.data, program.options);
    CHECK(verbs.hash == troupe::parameter_hash(*program.state.replicas[0]));
    CHECK(verbs.train == history.train->losses);
    CHECK(verbs.validation == history.validation->losses);
    CHECK(verbs.reason == history.reason);
    CHECK(history.epochs == 3);
    CHECK(history.steps == 12);
    CHECK(history.examples == 42);
  }

  TEST_CASE("run: a loop over the data itself has the same epochs, reports and weights") {
    const StatefulHooks hooks("Adam");
    const LoopEnding own = run_loop(hooks, loop_options(), [](TrainingRun& run, Program& program) {
      for (std::int64_t epoch = 0; !run.is_over() && epoch < 5; ++epoch) {
        for (const auto& batch : program.data.train->epoch(epoch)) run.train_step(batch);
      }
    });
    const LoopEnding usual = run_loop(hooks, loop_options(), [](TrainingRun& run, Program&) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) run.train_step(batch);
      }
    });
    CHECK(own == usual);
  }

  TEST_CASE("run: callbacks hear of a step when the loop continues, and of an epoch after it") {
    Program program(TinyHooks(10), loop_options());
    program.options.epochs = 1;
    const auto recorder = std::make_shared<Recorder>();
    const auto run = program.begin({{recorder}, {}});
    for (auto& epoch : run->epochs()) {
      for (const auto& batch : epoch) {
        run->train_step(batch);
        run->log("x", static_cast<double>(batch.step));
      }
      (void)run->validate();
    }
    (void)run->finish();
    CHECK(recorder->told == "x=0@1 step 1 x=1@2 step 2 x=2@3 step 3 epoch 0+validation end");
  }

  TEST_CASE("run: a logged number is in the metrics file") {
    const TempDir dir;
    Program program(TinyHooks(10), loop_options());
    program.options.metrics_file = (dir / "metrics").string();
    const auto run = program.begin();
    for (const auto& batch : *run->epochs().next()) {
      run->train_step(batch);
      if (batch.step == 1) run->log("clip", 0.25);
    }
    (void)run->finish();
    std::ifstream lines(program.options.metrics_file);
    std::string line;
    REQUIRE(std::getline(lines, line));
    const auto logged = nlohmann::json::parse(line);
    CHECK(logged["clip"] == 0.25);
    CHECK(logged["step"] == 2);
  }

  TEST_CASE("run: an epoch that training ended within is reported by the next start, once") {
    // As where all workers are lost between the last save and the report.
    const auto lines_of = [](const std::string& path) {
      std::vector<std::string> epochs;
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);)
        if (line.find("\"train\"") != std::string::npos) epochs.push_back(line);
      return epochs;
    };
    const auto run_once = [](const auto& hooks, const TempDir& dir, bool dies, bool own_loop) {
      Program program(hooks, loop_options(dir.path()));
      program.options.metrics_file = (dir / "metrics").string();
      program.options.max_steps = 5;  // of an epoch of three, the second
      const auto run = program.begin();
      const auto from = program.state.position;
      for (std::int64_t e = from.epoch; own_loop && e < 3; ++e) {
        for (const auto& batch :
             program.data.train->epoch(e == from.epoch ? from : troupe::DataPosition{e, 0}))
          (void)run->train_step(batch);
      }
      auto& epochs = run->epochs();
      while (auto* const epoch = own_loop ? nullptr : epochs.next()) {
        while (const auto* const batch = epoch->next()) (void)run->train_step(*batch);
        if (dies && run->is_over()) throw Crash();
        (void)run->validate();
      }
      (void)run->finish();
    };
    const auto check = [&](const auto& hooks, bool own_loop) {
      CAPTURE(own_loop);
      const TempDir whole;
      const TempDir dir;
      run_once(hooks, whole, false, own_loop);
      const auto expected = lines_of((whole / "metrics").string());
      REQUIRE(expected.size() == 2);
      CHECK_THROWS_AS(run_once(hooks, dir, true, false), Crash);
      CHECK(lines_of((dir / "metrics").string()).size() == 1);
      for (int start = 0; start < 2; ++start) {  // the second has nothing to add
        run_once(hooks, dir, false, own_loop);
        const auto told = lines_of((dir / "metrics").string());
        REQUIRE(told.size() == 2);
        CHECK(nlohmann::json::parse(told[1])["train"]["loss"] ==
              nlohmann::json::parse(expected[1])["train"]["loss"]);
      }
    };
    for (const bool own_loop : {false, true}) {
      check(TinyHooks(10), own_loop);
      check(StreamedHooks(10), own_loop);
    }
  }

  TEST_CASE("run: losses are those of the last step, and there are none before it") {
    Program program(TinyHooks(4), loop_options());
    const auto run = program.begin();
    auto& epoch = *run->epochs().next();
    const auto* batch = epoch.next();
    REQUIRE(run->train_step(*batch));
    // w = 0.5, b = -0.25 on y = 2 x + 1: the error is 1.5 x + 1.25, x = 0 .. 0.3.
    const double expected = (1.5625 + 1.96 + 2.4025 + 2.89) / 4;
    CHECK(run->losses().front().second == doctest::Approx(expected));
    CHECK(run->losses().front().first == "loss");
    (void)run->finish();
    Program other(TinyHooks(4), loop_options());
    const auto none = other.begin();
    CHECK_THROWS_WITH_AS((void)none->losses(), doctest::Contains("before the first step"),
                         troupe::ConfigError);
  }

  TEST_CASE("run: max_steps 3 takes 3 steps, and a step after the end is none") {
    Program program(TinyHooks(10), loop_options());
    program.options.max_steps = 3;
    const auto run = program.begin();
    int taken = 0;
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      for (const auto& batch : program.data.train->epoch(epoch)) {
        if (run->train_step(batch)) ++taken;
      }
    }
    CHECK(taken == 3);
    CHECK(run->is_over());
    CHECK(run->step_number() == 3);
    CHECK(run->finish().reason == "max_steps 3 is reached");
  }

  TEST_CASE("run: stop() ends it at that step, with a save") {
    const TempDir dir;
    Program program(StatefulHooks("SGD"), loop_options(dir.path()));
    program.options.save_checkpoints_steps = 100;
    const LoopEnding ending = run_loop(program, [](TrainingRun& run, Program&) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          if (run.step_number() == 6) run.stop("six are enough");
        }
      }
    });
    CHECK(ending.step == 6);
    CHECK(ending.reason == "six are enough");
    CHECK(saved_in(dir) == std::vector<std::int64_t>{0, 6});
  }

  TEST_CASE("run: save() saves at the next boundary, with what the body did meanwhile") {
    const TempDir dir;
    Program program(StatefulHooks("SGD"), loop_options(dir.path()));
    program.options.save_checkpoints_steps = 100;
    std::string changed;
    {
      const auto run = program.begin();
      auto& epoch = *run->epochs().next();
      for (int i = 0; i < 2; ++i) run->train_step(*epoch.next());
      run->save();
      const torch::NoGradGuard no_grad;
      for (auto& [name, weight] : program.state.replicas[0]->parameters()) weight.add_(1);
      changed = troupe::parameter_hash(*program.state.replicas[0]);
      run->train_step(*epoch.next());
    }
    CHECK(saved_in(dir) == std::vector<std::int64_t>{0, 2});
    CHECK(troupe::detail::take_left_undone() != "");
    Program resumed(StatefulHooks("SGD"), loop_options(dir.path()));
    const auto run = resumed.begin();
    CHECK(run->step_number() == 2);
    CHECK(troupe::parameter_hash(*resumed.state.replicas[0]) == changed);
    (void)run->finish();
  }

  TEST_CASE("run: the best checkpoint by a criterion of the loop's own stays") {
    const TempDir dir;
    troupe::TrainOptions options = loop_options(dir.path());
    options.save_checkpoints_steps = 100;
    options.keep_checkpoint_max = 1;
    const double scores[] = {3, 5, 4, 5, std::nan(""), 1, 7, 2};
    const auto loop = [&](TrainingRun& run, Program&) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          const std::int64_t step = run.step_number();
          if (step <= 8) run.keep_best("score", scores[step - 1], troupe::Better::higher);
        }
      }
    };
    options.max_steps = 6;
    (void)run_loop(TinyHooks(14), options, loop);
    CHECK(saved_in(dir) == std::vector<std::int64_t>{2, 6});  // a value as good is no better
    const std::string best = (dir / "best").string();
    CHECK(troupe::named_checkpoint(best) == (dir / "model.ckpt-2").string());
    // It is known over restarts: 7 is better than 5, though this run has not seen 5.
    options.max_steps = 8;
    (void)run_loop(TinyHooks(14), options, loop);
    CHECK(saved_in(dir) == std::vector<std::int64_t>{7, 8});
    CHECK(troupe::named_checkpoint(best) == (dir / "model.ckpt-7").string());
    CHECK(troupe::named_checkpoint((dir / "model.ckpt-8").string()) ==
          (dir / "model.ckpt-8").string());
    CHECK_THROWS_AS((void)troupe::named_checkpoint((dir / "none" / "best").string()),
                    troupe::ConfigError);
    Program program(TinyHooks(14), loop_options());
    const auto run = program.begin();
    CHECK_THROWS_AS(run->keep_best("score", 1, troupe::Better::higher), troupe::ConfigError);
  }

  TEST_CASE("run: the best checkpoint by a validation's loss, also that of the last step") {
    const TempDir dir;
    troupe::TrainOptions options = loop_options(dir.path());
    options.keep_checkpoint_max = 1;
    options.best = troupe::MetricRule{"loss"};
    options.learning_rate = 0.05;
    std::vector<double> losses;
    (void)run_loop(TinyHooks(14), options, [&](TrainingRun& run, Program&) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) run.train_step(batch);
        losses.push_back(run.validate()->losses.front().second);
      }
    });
    REQUIRE(losses.size() == 3);
    const auto least = std::min_element(losses.begin(), losses.end());
    const std::int64_t step = 4 * (least - losses.begin() + 1);
    CHECK(troupe::named_checkpoint((dir / "best").string()) ==
          (dir / troupe::text("model.ckpt-", step)).string());
  }

  TEST_CASE("run: early stopping by the loop's validations, in every epoch of a resumed run too") {
    const auto loop = [](TrainingRun& run, Program& program) { usual_loop(run, program); };
    const auto ending_with = [&](const char* rule, std::int64_t min_steps) {
      const TempDir dir;
      troupe::TrainOptions options = loop_options(dir.path());
      options.early_stopping = {*troupe::parse_stop_rule(rule)};
      options.min_steps = min_steps;
      return run_loop(TinyHooks(14), options, loop);
    };
    // Four steps an epoch; every loss is better than 1e9, and none gets worse in these.
    CHECK(ending_with("loss=1e9", 0).step == 4);
    CHECK(ending_with("loss=1e9", 5).step == 8);
    CHECK(contains(ending_with("loss=1e9", 0).reason, "has reached 1e+09"));
    CHECK(ending_with("loss:4", 0).step == 12);
    CHECK(ending_with("loss:max:4", 0).step == 8);
    CHECK(contains(ending_with("loss:max:4", 0).reason, "loss has not increased for 4 steps"));
    // What a rule has seen survives a crash at any moment.
    const StatefulHooks hooks("Adam");
    const auto options_in = [&](const TempDir& dir) {
      troupe::TrainOptions options = loop_options(dir.path());
      options.epochs = 6;
      options.early_stopping = {*troupe::parse_stop_rule("loss:max:8")};
      return options;
    };
    const TempDir whole;
    const LoopEnding expected = run_loop(hooks, options_in(whole), loop);
    CHECK(expected.step == 12);
    for (int moment = 0; moment < 15; ++moment) {
      CAPTURE(moment);
      const TempDir dir;
      Program program(hooks, options_in(dir));
      program.moments_left = moment;
      CHECK_THROWS_AS((void)run_loop(program, loop), Crash);
      CHECK(run_loop(hooks, options_in(dir), loop) == expected);
    }
  }

  TEST_CASE("run: what the validations are to decide and cannot is refused before a step") {
    const auto refused = [](auto change) {
      const TempDir dir;
      troupe::TrainOptions options = loop_options(dir.path());
      change(options);
      Program program(TinyHooks(14), options);
      CHECK_THROWS_AS((void)program.begin(), troupe::ConfigError);
    };
    refused([](auto& options) { options.early_stopping = {{{"los"}, 5}}; });
    refused([](auto& options) { options.best = troupe::MetricRule{"acuracy"}; });
    // Nobody says which way it is better.
    refused([](auto& options) { options.best = troupe::MetricRule{"absolute_error"}; });
    refused([](auto& options) {
      options.best = troupe::MetricRule{"loss"};
      options.save_checkpoints_steps = 0;
    });
    Program program(TinyHooks(14), loop_options());
    program.options.early_stopping = {{{"loss"}, 5}};
    program.data.validation.reset();
    CHECK_THROWS_AS((void)program.begin(), troupe::ConfigError);
  }

  TEST_CASE("run: save() between epochs is of the next epoch's beginning") {
    const TempDir dir;
    Program program(TinyHooks(10), loop_options(dir.path()));
    program.options.save_checkpoints_steps = 100;
    program.options.epochs = 5;
    (void)run_loop(program, [](TrainingRun& run, Program&) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) run.train_step(batch);
        (void)run.validate();
        if (epoch.number() == 1) run.save();
        if (epoch.number() == 3) break;
      }
    });
    CHECK(saved_in(dir) == std::vector<std::int64_t>{0, 6, 12});
  }

  TEST_CASE("run: save() is refused where nothing is saved") {
    Program without(TinyHooks(10), loop_options());
    CHECK_THROWS_WITH_AS(without.begin()->save(), doctest::Contains("without a model directory"),
                         troupe::ConfigError);
    const TempDir dir;
    Program never(TinyHooks(10), loop_options(dir.path()));
    never.options.save_checkpoints_steps = 0;
    CHECK_THROWS_WITH_AS(never.begin()->save(), doctest::Contains("switched off"),
                         troupe::ConfigError);
  }

  TEST_CASE("run: a batch is one step, and what follows a failure is refused") {
    Program program(TinyHooks(10), loop_options());
    const auto run = program.begin();
    auto& epoch = *run->epochs().next();
    const auto& batch = *epoch.next();
    REQUIRE(run->train_step(batch));
    CHECK_THROWS_WITH_AS(run->train_step(batch), doctest::Contains("a batch is one step"),
                         troupe::ConfigError);
    CHECK(run->step_number() == 1);
    for (const auto& verb : std::vector<std::function<void()>>{
             [&] { (void)epoch.next(); }, [&] { (void)run->epochs().next(); },
             [&] { run->train_step(batch); }, [&] { (void)run->validate(); },
             [&] { (void)run->losses(); }, [&] { run->log("x", 1); },
             [&] { (void)run->keep("x", 1); }, [&] { run->stop("x"); },
             [&] { (void)run->finish(); }}) {
      CHECK_THROWS_WITH_AS(verb(), doctest::Contains("a failed training run"), troupe::ConfigError);
    }
  }

  TEST_CASE("run: batches of the loop's own are steps of the data, and none is left out unsaid") {
    const auto taken = [](std::int64_t steps_an_epoch) {
      troupe::TrainOptions options = loop_options();
      options.epochs = 3;
      std::int64_t count = 0;
      (void)run_loop(TinyHooks(14), options, [&](TrainingRun& run, Program&) {
        const auto x = torch::arange(4, torch::kFloat32).unsqueeze(1);
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          for (std::int64_t step = 0; step < steps_an_epoch; ++step) {
            troupe::DistributedBatch own;
            own.epoch = epoch;
            own.step = step;
            own.global_examples = 4;
            own.replicas = {{{x, 2 * x}, 4}};
            count += run.train_step(own) ? 1 : 0;
          }
        }
      });
      return count;
    };
    CHECK(taken(3) == 9);  // of the data's four
    CHECK(taken(4) == 12);
    CHECK_THROWS_WITH_AS((void)taken(5), doctest::Contains("has 4 steps an epoch"),
                         troupe::ConfigError);
    const auto x = torch::ones({4, 1});
    for (const auto& [examples, replicas] :
         std::vector<std::pair<std::int64_t, std::vector<troupe::Batch>>>{
             {4, {{{x, x}, 0}}}, {0, {{{x, x}, 0}}}, {4, {{{}, 4}}}, {4, {}}}) {
      Program program(TinyHooks(14), loop_options());
      const auto run = program.begin();
      troupe::DistributedBatch own;
      own.global_examples = examples;
      own.replicas = replicas;
      CHECK_THROWS_WITH_AS((void)run->train_step(own), doctest::Contains("is not complete"),
                           troupe::ConfigError);
    }
  }

  TEST_CASE("run: two threads do not train at the same time, but one after the other") {
    Program first(TinyHooks(10), loop_options());
    Program second(TinyHooks(10), loop_options());
    std::string refused;
    const auto begin_second = [&] {
      std::thread([&] {
        try {
          (void)second.begin();
        } catch (const troupe::ConfigError& error) {
          refused = error.cause();
        }
      }).join();
    };
    {
      const auto run = first.begin();
      begin_second();
      CHECK(refused.find("another thread of this process trains") != std::string::npos);
    }
    refused.clear();
    begin_second();
    CHECK(refused.empty());
  }

  TEST_CASE("run: one at a time, and the next one after finish()") {
    Program program(TinyHooks(10), loop_options());
    const auto first = program.begin();
    CHECK_THROWS_WITH_AS((void)program.begin(),
                         doctest::Contains("started before the previous one finished"),
                         troupe::ConfigError);
    usual_loop(*first, program);
    (void)first->finish();
    CHECK_THROWS_WITH_AS((void)first->finish(), doctest::Contains("a finished training run"),
                         troupe::ConfigError);
    program.options.epochs = 4;
    const auto second = program.begin();
    usual_loop(*second, program);
    CHECK(second->finish().steps == 3);
  }

  TEST_CASE("run: finish() lets the model directory go") {
    const TempDir dir;
    Program program(TinyHooks(10), loop_options(dir.path()));
    const auto first = program.begin();
    usual_loop(*first, program);
    (void)first->finish();
    Program next(TinyHooks(10), loop_options(dir.path()));
    CHECK(next.begin()->finish().steps == 0);
  }

  TEST_CASE("run: it keeps its options and data, whatever becomes of the caller's") {
    Program program(TinyHooks(10), loop_options());
    auto options = std::make_unique<troupe::TrainOptions>(program.options);
    auto data = std::make_unique<troupe::DistributedSplits>(program.data);
    TrainingRun run(*program.strategy, program.hooks, program.state, *data, *options);
    options->epochs = 100;
    options.reset();
    data.reset();
    usual_loop(run, program);
    CHECK(run.finish().epochs == 3);
  }

  TEST_CASE("run: left by return it is known to run_main, left by an exception it is not") {
    (void)troupe::detail::take_left_undone();
    Program program(TinyHooks(10), loop_options());
    (void)program.begin();
    CHECK(troupe::detail::take_left_undone().find(
              "rank 0 left its training loop without finish()") == 0);
    try {
      const auto run = program.begin();
      throw Crash();
    } catch (const Crash&) {
    }
    CHECK(troupe::detail::take_left_undone() == "");
    usual_loop(*program.begin(), program);
    CHECK(troupe::detail::take_left_undone() != "");
  }

  TEST_CASE("run: a validation in mid-epoch reports and closes nothing") {
    Program program(TinyHooks(10), loop_options());
    program.options.epochs = 1;
    const auto recorder = std::make_shared<Recorder>();
    const auto run = program.begin({{recorder}, {}});
    for (auto& epoch : run->epochs()) {
      for (const auto& batch : epoch) {
        run->train_step(batch);
        if (batch.step == 0) CHECK(run->validate()->examples == 10);
        if (batch.step == 0) CHECK(recorder->told.empty());
      }
    }
    const auto history = run->finish();
    CHECK(recorder->told == "step 1 step 2 step 3 epoch 0+validation end");
    CHECK(history.train->examples == 10);
  }

  TEST_CASE("run: a plateau observes an epoch once, also where the run resumes at its end") {
    const auto plateau = [](const TempDir& dir, std::int64_t save_every) {
      auto options = loop_options(dir.path());
      options.save_checkpoints_steps = save_every;
      options.schedule.kind = troupe::Schedule::plateau;
      options.schedule.patience = 1;
      options.schedule.decay_factor = 0.5;
      return options;
    };
    const auto validate_often = [](TrainingRun& run, Program& program) {
      for (auto& epoch : run.epochs()) {
        for (const auto& batch : epoch) {
          run.train_step(batch);
          if (batch.step == 1) (void)run.validate();
        }
        for (int i = 0; i < 3; ++i) (void)run.validate();
        if (epoch.number() == 0) run.save();
        program.moment();
      }
    };
    // A loss that never falls: every observed epoch after the first drops the rate.
    class Flat final : public TinyHooks {
     public:
      [[nodiscard]] troupe::StepResult validation_step(troupe::Replica& replica,
                                                       const troupe::Batch& batch) const override {
        return replica.global_mean(torch::ones({batch.examples()}));
      }
    };
    // Three steps an epoch: saved at the end of the epoch, before it is validated, or after that.
    for (const std::int64_t save_every : {3, 100}) {
      CAPTURE(save_every);
      const TempDir dir;
      Program crashed(Flat(), plateau(dir, save_every));
      crashed.moments_left = 1;
      CHECK_THROWS_AS((void)run_loop(crashed, validate_often), Crash);
      Program program(Flat(), plateau(dir, save_every));
      (void)run_loop(program, validate_often);
      CHECK(program.state.plateau.drops == 2);
      CHECK(program.state.plateau.observed_epoch == 2);
    }
  }

  TEST_CASE("run: validations at checkpoints are not the loop's") {
    Program program(TinyHooks(10), loop_options());
    troupe::Callbacks callbacks;
    callbacks.evaluates_checkpoints = true;
    const auto run = program.begin(callbacks);
    CHECK_FALSE(run->validate().has_value());
    (void)run->finish();
  }

  TEST_CASE("run: --on-non-finite stop names the last good step") {
    for (const auto what : {Exploding::What::gradient, Exploding::What::loss}) {
      const Exploding hooks(what, 3);
      Program program(hooks, loop_options());
      program.options.on_non_finite = troupe::OnNonFinite::stop;
      const CapturedLog log;
      const LoopEnding ending = run_loop(program, usual_loop);
      CHECK(log.text().find("nothing after step 2 is saved") != std::string::npos);
      CHECK(ending.reason == "the loss or a gradient is not finite");
    }
  }

  TEST_CASE("run: two step functions with losses of their own are reported at their own mean") {
    Program program(TinyHooks(12), loop_options());
    program.options.epochs = 1;
    double odd = 0;
    const auto run = program.begin();
    for (auto& epoch : run->epochs()) {
      for (const auto& batch : epoch) {
        const bool other = batch.step == 1;
        run->step(batch, [&](troupe::Replica& replica, const troupe::Batch& own) {
          const auto loss = program.hooks.train_step(replica, own).losses.front().second;
          return troupe::StepResult{{other ? "odd" : "even", loss}};
        });
        if (other) odd = run->losses().front().second;
      }
    }
    const auto history = run->finish();
    REQUIRE(history.train->losses.size() == 2);
    CHECK(history.train->losses[1].first == "odd");
    CHECK(history.train->losses[1].second == doctest::Approx(odd));
  }

  TEST_CASE("test: without test data there is no report") {
    Program program(TinyHooks(10), loop_options());
    program.data.test.reset();
    CHECK_FALSE(troupe::test(*program.strategy, program.hooks, program.state, program.data));
  }
}

}  // namespace training_run_test
