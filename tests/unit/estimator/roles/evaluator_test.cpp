// Which checkpoints the evaluator evaluates, when, and how it waits.
#include "troupe/train/evaluation/evaluator.h"

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/roles/evaluator_bench.h"
#include "troupe/core/failure.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using Bench = EvaluatorBench;
using troupe::CheckpointError;
using troupe::Seconds;

constexpr const char* kWarning = " W ";

}  // namespace

TEST_SUITE("train/evaluation") {
  TEST_CASE("evaluator: every checkpoint is exported and only the last one is final") {
    Bench bench;
    bench.options.goal.max_steps = 200;
    bench.job.steps = {{"p1", 100}, {"p2", 200}};
    bench.latest({"p1", "p2"});
    bench.run();
    CHECK(bench.job.evaluated == Lines{"p1", "p2"});
    CHECK(bench.job.exported == Lines{"p1", "p2 final"});
  }

  // A poll is one look for a checkpoint: ours come every `poll` seconds once throttle is over, so
  // the first three are 1 s apart and the fourth comes 2 s after the evaluation began.
  TEST_CASE("evaluator: a missing or unchanged checkpoint is skipped, with few warnings") {
    Bench bench;
    bench.options.throttle = Seconds(2);
    bench.job.steps = {{"same", 100}, {"path_2", 200}};
    bench.options.goal.max_steps = 200;
    const std::deque<std::optional<std::string>> answers{std::nullopt, "", "same", "same",
                                                         "path_2"};
    bench.job.latest = [&] { return answers.at(static_cast<std::size_t>(bench.job.looks) - 1); };
    bench.run();
    CHECK(bench.job.looks == 5);
    CHECK(bench.job.evaluated == Lines{"same", "path_2"});
    CHECK(bench.log.count(kWarning) == 2);
    CHECK(bench.sleeper.sleeps == std::vector<double>{1, 1, 1, 1, 1});
  }

  // Estimator warned that it polls without a pause; we pause, so it is an information line.
  TEST_CASE("evaluator: throttle 0 looks every poll, and a line says so once") {
    Bench bench;
    bench.options.poll = Seconds(0.25);
    bench.options.goal.max_steps = 10;
    bench.latest({"", "model.ckpt-10"});
    bench.run();
    CHECK(bench.job.looks == 2);
    CHECK(bench.job.evaluated.size() == 1);
    CHECK(bench.sleeper.sleeps == std::vector<double>{0.25});
    CHECK(bench.log.count("throttle_secs is 0: looks for a new checkpoint every 0.25 s") == 1);
  }

  TEST_CASE("evaluator: sleeps the start delay before the first look") {
    Bench bench;
    bench.options.start_delay = Seconds(123);
    bench.options.goal.max_steps = 1;
    double looked_at = 0;
    bench.job.latest = [&] {
      looked_at = bench.now();
      return "model.ckpt-1";
    };
    bench.run();
    CHECK(looked_at == 123);
    CHECK(bench.sleeper.total() == 123);
    CHECK(bench.log.has("waits 123 s before the first look"));
  }

  // A number where metrics should be, or no global step, does not compile here.
  TEST_CASE("evaluator: an evaluation without metrics is refused") {
    Bench bench;
    bench.job.metrics.clear();
    bench.latest({"model.ckpt-1"});
    CHECK_THROWS_AS(bench.run(), troupe::ConfigError);
    CHECK(bench.job.exported.empty());
  }

  TEST_CASE("evaluator: throttle counts from start to start") {
    Bench bench;
    bench.options.throttle = Seconds(123);
    bench.options.goal.max_steps = 2;
    std::vector<double> starts;
    bench.job.during_evaluation = [&](const std::string&) {
      starts.push_back(bench.now());
      bench.clock.advance(Seconds(12));
    };
    bench.latest({"model.ckpt-1", "model.ckpt-2"});
    bench.run();
    CHECK(starts == std::vector<double>{0, 123});
    CHECK(bench.sleeper.total() == 111);
    CHECK(bench.sleeper.sleeps.front() == 1);
    CHECK(bench.log.count("waits 111 s until the next evaluation (throttle_secs 123") == 1);
  }

  TEST_CASE("evaluator: an evaluation longer than throttle is followed by the next one at once") {
    Bench bench;
    bench.options.throttle = Seconds(10);
    bench.options.goal.max_steps = 2;
    bench.job.during_evaluation = [&](const std::string&) { bench.clock.advance(Seconds(10)); };
    bench.latest({"model.ckpt-1", "model.ckpt-2"});
    bench.run();
    CHECK(bench.sleeper.sleeps.empty());
  }

  TEST_CASE("evaluator: the last sleep of a throttle is not longer than its rest") {
    Bench bench;
    bench.options.throttle = Seconds(2.5);
    bench.options.goal.max_steps = 2;
    bench.latest({"model.ckpt-1", "model.ckpt-2"});
    bench.run();
    CHECK(bench.sleeper.sleeps == std::vector<double>{1, 1, 0.5});
  }

  TEST_CASE("evaluator: only the newest checkpoint is evaluated") {
    Bench bench;
    bench.options.throttle = Seconds(100);
    bench.options.goal.max_steps = 40;
    bench.latest_at({{0, "model.ckpt-10"},
                     {30, "model.ckpt-20"},
                     {60, "model.ckpt-30"},
                     {150, "model.ckpt-40"}});
    bench.run();
    CHECK(bench.job.evaluated == Lines{"model.ckpt-10", "model.ckpt-30", "model.ckpt-40"});
  }

  TEST_CASE("evaluator: a checkpoint that vanished is followed by the newer one at once") {
    Bench bench;
    bench.options.goal.max_steps = 2;
    bench.job.during_evaluation = [](const std::string& path) {
      if (path == "model.ckpt-1") throw CheckpointError("'model.ckpt-1' is gone.", "");
    };
    bench.latest({"model.ckpt-1", "model.ckpt-2"});
    const auto last = bench.run();
    CHECK(bench.job.evaluated == Lines{"model.ckpt-1", "model.ckpt-2"});
    CHECK(last->checkpoint == "model.ckpt-2");
    CHECK(bench.sleeper.sleeps.empty());
    CHECK(bench.log.has("'model.ckpt-1' is gone."));
  }

  TEST_CASE("evaluator: a checkpoint that cannot be read is tried three times") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.options.goal.max_steps = 1;
    bench.latest({"model.ckpt-1"});
    SUBCASE("and then the error passes on") {
      bench.job.during_evaluation = [](const std::string&) {
        throw CheckpointError("'model.ckpt-1' is damaged.", "");
      };
      CHECK_THROWS_WITH_AS(bench.run(), "'model.ckpt-1' is damaged.", CheckpointError);
      CHECK(bench.job.evaluated.size() == 3);
    }
    SUBCASE("the third may succeed") {
      bench.job.during_evaluation = [&](const std::string&) {
        if (bench.job.evaluated.size() < 3) throw CheckpointError("busy.", "");
      };
      CHECK(bench.run().has_value());
    }
    CHECK(bench.sleeper.sleeps == std::vector<double>{1, 1});
  }

  TEST_CASE("evaluator: each checkpoint that cannot be read has three tries of its own") {
    Bench bench;
    bench.options.goal.max_steps = 2;
    bench.job.during_evaluation = [&](const std::string&) {
      if (bench.job.evaluated.size() < 5) throw CheckpointError("busy.", "");
    };
    // The looks: before the first evaluation and after each that failed.
    bench.latest({"model.ckpt-1", "model.ckpt-1", "model.ckpt-2"});
    CHECK(bench.run()->checkpoint == "model.ckpt-2");
    CHECK(bench.job.evaluated ==
          Lines{"model.ckpt-1", "model.ckpt-1", "model.ckpt-2", "model.ckpt-2", "model.ckpt-2"});
  }

  TEST_CASE("evaluator: where the new checkpoint is gone and the old one is newest, it waits on") {
    Bench bench;
    bench.options.goal.max_steps = 3;
    bench.job.during_evaluation = [](const std::string& path) {
      if (path == "model.ckpt-2") throw CheckpointError("'model.ckpt-2' is gone.", "");
    };
    bench.latest({"model.ckpt-1", "model.ckpt-2", "model.ckpt-1", "model.ckpt-3"});
    bench.run();
    CHECK(bench.job.evaluated == Lines{"model.ckpt-1", "model.ckpt-2", "model.ckpt-3"});
    CHECK(bench.sleeper.sleeps == std::vector<double>{1});
  }

  TEST_CASE("evaluator: other errors pass on at once") {
    Bench bench;
    bench.latest({"model.ckpt-1"});
    bench.job.during_evaluation = [](const std::string&) {
      throw troupe::DataError("no examples.", "");
    };
    CHECK_THROWS_AS(bench.run(), troupe::DataError);
    CHECK(bench.job.evaluated.size() == 1);
  }

  TEST_CASE("evaluator: a wait is logged every ten minutes, and again after an evaluation") {
    Bench bench;
    bench.options.goal.max_steps = 2;
    SUBCASE("for a checkpoint") {
      bench.latest_at({{1500, "model.ckpt-1"}, {2000, "model.ckpt-2"}});
      bench.run();
      // At 0, 600 and 1200; after the evaluation at 1500.
      CHECK(bench.log.count(kWarning) == 4);
      CHECK(bench.log.has("there is no checkpoint yet; waited 1200 s for it"));
      CHECK(bench.log.has("there is no checkpoint newer than 'model.ckpt-1' yet"));
    }
    SUBCASE("for the end of throttle") {
      bench.options.throttle = Seconds(1500);
      bench.latest({"model.ckpt-1", "model.ckpt-2"});
      bench.run();
      CHECK(bench.log.count("until the next evaluation") == 3);
      CHECK(bench.log.has("waits 300 s until the next evaluation"));
    }
    SUBCASE("for the end of each short throttle") {
      bench.options.throttle = Seconds(100);
      bench.options.goal.max_steps = 3;
      bench.latest({"model.ckpt-1", "model.ckpt-2", "model.ckpt-3"});
      bench.run();
      CHECK(bench.log.count("waits 100 s until the next evaluation") == 2);
    }
  }

  TEST_CASE("evaluation: its line is sorted and an unknown name lists the known ones") {
    const troupe::Evaluation evaluation{
        600, {{"loss", 0.061}, {"accuracy", 0.98}, {"average_loss", 0.06}}};
    CHECK(to_line(evaluation) ==
          "accuracy = 0.98, average_loss = 0.06, global_step = 600, loss = 0.061");
    CHECK(evaluation.at("accuracy") == 0.98);
    CHECK_THROWS_WITH_AS(static_cast<void>(evaluation.at("auc")),
                         doctest::Contains("it has 'loss', 'accuracy', 'average_loss'."),
                         troupe::ConfigError);
  }
}
