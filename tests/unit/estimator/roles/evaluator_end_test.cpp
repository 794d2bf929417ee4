// How the evaluator ends: max_steps, the chief's marker, nothing new for too long.
#include <optional>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/roles/evaluator_bench.h"
#include "troupe/core/failure.h"
#include "troupe/train/evaluation/evaluator.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using Bench = EvaluatorBench;
using troupe::EvaluationRound;
using troupe::Seconds;

}  // namespace

TEST_SUITE("train/evaluation") {
  TEST_CASE("evaluator: one evaluation of the explicit checkpoint, at max_steps it ends") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.options.goal.max_steps = 200;
    bench.job.steps = {{"c", 200}};
    bench.latest({"c"});
    const auto last = bench.run();
    CHECK(bench.job.evaluated == Lines{"c"});
    CHECK(bench.job.exported == Lines{"c final"});
    CHECK(bench.job.looks == 1);
    REQUIRE(last.has_value());
    CHECK(last->is_final);
    CHECK(last->evaluation.global_step == 200);
    CHECK(last->exports == std::vector<std::optional<std::string>>{"exported"});
    // Estimator's evaluator would sleep once more here.
    CHECK(bench.sleeper.sleeps.empty());
    CHECK(bench.log.has("the evaluator ends: global step 200 has reached max_steps 200"));
  }

  TEST_CASE("evaluator: step 0 does not end it by max_steps") {
    Bench bench;
    bench.options.goal.max_steps = 1;
    bench.latest({"model.ckpt-0", "model.ckpt-1"});
    bench.run();
    CHECK(bench.job.evaluated.size() == 2);
    CHECK_FALSE(troupe::max_steps_reached({1, {}}, 0));
    CHECK_FALSE(troupe::max_steps_reached({2, {}}, 1));
    CHECK(troupe::max_steps_reached({2, {}}, 2));
    CHECK(troupe::max_steps_reached({2, {}}, 3));
    CHECK_FALSE(troupe::max_steps_reached({}, 3));
  }

  TEST_CASE("evaluator: it ends at the chief's marker, within a poll of it") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.options.goal.max_steps = 600;
    bench.latest({"model.ckpt-340"});
    bench.sleeper.after_sleep = [&] {
      if (bench.now() >= 5) {
        bench.job.marker = {340, bench.options.goal, "early stopping: loss did not fall"};
      }
    };
    const auto last = bench.run();
    CHECK(bench.now() == 5);
    CHECK(bench.job.evaluated.size() == 1);
    CHECK(bench.log.has("training finished at step 340 (early stopping: loss did not fall)"));
    // The final exporters could not know at the evaluation that it was the last.
    CHECK(bench.job.exported == Lines{"model.ckpt-340", "model.ckpt-340 final"});
    CHECK(last->is_final);
  }

  TEST_CASE("evaluator: the end of training cuts the start delay short") {
    Bench bench;
    bench.options.start_delay = Seconds(120);
    bench.latest({"model.ckpt-340"});
    bench.sleeper.after_sleep = [&] {
      if (bench.now() >= 5) bench.job.marker = {340, bench.options.goal, "done"};
    };
    bench.run();
    CHECK(bench.now() == 5);
    CHECK(bench.job.exported == Lines{"model.ckpt-340 final"});
  }

  TEST_CASE("evaluator: a marker of another goal does not cut the start delay short") {
    Bench bench;
    bench.options.start_delay = Seconds(120);
    bench.options.goal.max_steps = 340;
    bench.job.marker = {340, {300, std::nullopt}, "done"};
    bench.latest({"model.ckpt-340"});
    bench.run();
    CHECK(bench.now() == 120);
  }

  TEST_CASE("evaluator: what the one before it left undone comes first, and once") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.options.goal.max_steps = 20;
    bench.job.undone = "model.ckpt-10";
    SUBCASE("before a newer checkpoint, which does not wait for throttle") {
      bench.latest({"model.ckpt-20"});
      bench.run();
      CHECK(bench.job.exported == Lines{"model.ckpt-10", "model.ckpt-20 final"});
      CHECK(bench.now() == 0);
    }
    SUBCASE("and is not repeated where it is the newest") {
      bench.latest_at({{0, "model.ckpt-10"}, {30, "model.ckpt-20"}});
      bench.run();
      CHECK(bench.job.exported == Lines{"model.ckpt-10", "model.ckpt-20 final"});
    }
  }

  TEST_CASE("evaluator: an exporter that does not export again keeps its answer") {
    EvaluationRound round;
    round.checkpoint = "p";
    round.evaluation.metrics = {{"loss", 0.5}};
    round.exports = {"best-1", std::nullopt, "latest-1"};
    FakeEvaluationJob job;
    job.answers = {std::nullopt, "final-1", "latest-2"};
    troupe::export_as_final(job, round);
    CHECK(round.exports ==
          std::vector<std::optional<std::string>>{"best-1", "final-1", "latest-2"});
    CHECK(round.is_final);
    CHECK(job.exported == Lines{"p final"});
  }

  TEST_CASE("evaluator: a marker that comes during the last evaluation makes it the final one") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.latest({"model.ckpt-340"});
    bench.job.during_evaluation = [&](const std::string&) {
      bench.job.marker = {340, bench.options.goal, "the input has ended"};
    };
    bench.run();
    CHECK(bench.job.exported == Lines{"model.ckpt-340 final"});
    CHECK(bench.sleeper.sleeps.empty());
  }

  TEST_CASE("evaluator: a marker's newer checkpoint is evaluated at once and is the final one") {
    Bench bench;
    bench.options.throttle = Seconds(600);
    bench.options.goal = {std::nullopt, 3};
    bench.latest_at({{0, "model.ckpt-320"}, {4, "model.ckpt-340"}});
    bench.sleeper.after_sleep = [&] {
      if (bench.now() >= 7) bench.job.marker = {340, bench.options.goal, "3 epochs done"};
    };
    bench.run();
    CHECK(bench.now() == 7);
    CHECK(bench.job.exported == Lines{"model.ckpt-320", "model.ckpt-340 final"});
  }

  TEST_CASE("evaluator: a marker does not end it before the marker's step is evaluated") {
    Bench bench;
    bench.job.marker = {340, bench.options.goal, "done"};
    bench.latest_at({{0, "model.ckpt-320"}, {30, "model.ckpt-340"}});
    bench.run();
    CHECK(bench.now() == 30);
    CHECK(bench.job.exported == Lines{"model.ckpt-320", "model.ckpt-340 final"});
    CHECK(bench.log.has("no checkpoint of step 340, at which training finished"));
  }

  TEST_CASE("evaluator: an evaluation beyond the marker's step ends it, too") {
    Bench bench;
    bench.job.marker = {340, bench.options.goal, "done"};
    bench.latest({"model.ckpt-360"});
    bench.run();
    CHECK(bench.job.evaluated.size() == 1);
  }

  TEST_CASE("evaluator: a marker of another goal is ignored") {
    Bench bench;
    bench.options.goal = {600, 5};
    for (const troupe::TrainingGoal& other :
         {troupe::TrainingGoal{300, 5}, troupe::TrainingGoal{600, 4},
          troupe::TrainingGoal{600, std::nullopt}, troupe::TrainingGoal{std::nullopt, 5}}) {
      bench.job.marker = {10, other, "done"};
      bench.job.exported.clear();
      bench.latest({"model.ckpt-10", "model.ckpt-600"});
      bench.run();
      CHECK(bench.job.exported == Lines{"model.ckpt-10", "model.ckpt-600 final"});
    }
  }

  TEST_CASE("evaluator: idle for too long is an error that names what was awaited") {
    Bench bench;
    bench.options.idle_timeout = Seconds(300);
    SUBCASE("before the first checkpoint; the start delay does not count") {
      bench.options.start_delay = Seconds(120);
      bench.latest({""});
      CHECK_THROWS_WITH_AS(bench.run(), doctest::Contains("300 s for a checkpoint (idle_timeout"),
                           troupe::TimeoutError);
      CHECK(bench.now() == 420);
    }
    SUBCASE("after one; the evaluation does not count") {
      bench.job.during_evaluation = [&](const std::string&) { bench.clock.advance(Seconds(900)); };
      bench.latest({"model.ckpt-1"});
      CHECK_THROWS_WITH_AS(bench.run(), doctest::Contains("newer than 'model.ckpt-1'"),
                           troupe::TimeoutError);
      CHECK(bench.now() == 1200);
    }
    SUBCASE("while throttle is waited for as well") {
      bench.options.throttle = Seconds(1000);
      bench.latest({"model.ckpt-1"});
      CHECK_THROWS_AS(bench.run(), troupe::TimeoutError);
      CHECK(bench.now() == 300);
    }
    SUBCASE("not while a newer one waits for throttle") {
      bench.options.throttle = Seconds(1000);
      bench.options.goal.max_steps = 2;
      bench.latest({"model.ckpt-1", "model.ckpt-2"});
      CHECK_NOTHROW(bench.run());
    }
  }
}
