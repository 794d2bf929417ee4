// Evaluation in the process that trains: which checkpoints, when, and which one is the final one.
#include <string>

#include "tests/support/captured_log.h"
#include "tests/support/test_prelude.h"
#include "tests/unit/estimator/roles/fake_evaluation_job.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/train/evaluation/evaluator.h"

namespace {

using namespace troupe::testing;  // NOLINT: a test
using troupe::EvaluationListener;
using troupe::EvaluationRound;
using troupe::SavedCheckpoint;
using troupe::Seconds;
using troupe::text;

// A run of training in the eyes of its listener.
struct Run {
  FakeClock clock;
  FakeEvaluationJob job;
  Seconds throttle{600};
  CapturedLog log;
  std::optional<EvaluationListener> listener;

  /// Saves at the start, at every `every`-th step and at the end. Returns the step it ended at.
  std::int64_t train(std::int64_t every, std::int64_t max_steps, Seconds step_time = Seconds(0)) {
    listener.emplace(job, throttle, troupe::TrainingGoal{max_steps, std::nullopt}, clock);
    listener->begin();
    save(0, max_steps);
    for (std::int64_t step = 1;; ++step) {
      clock.advance(step_time);
      const bool stop = step == max_steps;
      if (step % every == 0 || stop) save(step, max_steps);
      if (!stop) continue;
      listener->end({step, text("model.ckpt-", step), true});
      return step;
    }
  }
  void save(std::int64_t step, std::int64_t max_steps) {
    listener->after_save({step, text("model.ckpt-", step), step == max_steps});
  }
};

}  // namespace

TEST_SUITE("train/evaluation") {
  TEST_CASE("evaluation_listener: throttle 0 evaluates every checkpoint but the first") {
    Run run;
    run.throttle = Seconds(0);
    run.train(10, 22);
    CHECK(run.job.evaluated == Lines{"model.ckpt-10", "model.ckpt-20", "model.ckpt-22"});
    CHECK(run.job.exported == Lines{"model.ckpt-10", "model.ckpt-20", "model.ckpt-22 final"});
    CHECK(run.listener->last()->evaluation.global_step == 22);
    CHECK(run.listener->last()->exports == std::vector<std::optional<std::string>>{"exported"});
  }

  TEST_CASE("evaluation_listener: two evaluations, the final one once") {
    Run run;
    run.throttle = Seconds(0);
    run.train(10, 12);
    CHECK(run.job.exported == Lines{"model.ckpt-10", "model.ckpt-12 final"});
  }

  TEST_CASE(
      "evaluation_listener: a throttle longer than the run leaves 2 evaluations of 40 steps") {
    Run run;
    run.throttle = Seconds(600);
    run.train(10, 40, Seconds(0.32));
    CHECK(run.job.exported == Lines{"model.ckpt-10", "model.ckpt-40 final"});
    CHECK(run.log.count(" skipped: ") == 3);
    CHECK(
        run.log.has("evaluation of model.ckpt-20 skipped: 3.2 s of throttle_secs 600 have passed"));
    CHECK(run.log.has("evaluation of model.ckpt-30 skipped: 6.4 s"));
    CHECK(run.log.has("evaluation of model.ckpt-40 skipped: 9.6 s"));
  }

  TEST_CASE("evaluation_listener: the defaults on a run of 5 minutes give 1 evaluation") {
    Run run;
    run.train(1000, 300, Seconds(1));  // a save every 600 s is none
    CHECK(run.job.exported == Lines{"model.ckpt-300 final"});
  }

  TEST_CASE("evaluation_listener: throttle counts from start to start") {
    Run run;
    run.throttle = Seconds(10);
    run.job.during_evaluation = [&](const std::string&) { run.clock.advance(Seconds(9)); };
    run.train(1, 6, Seconds(1));
    // Evaluated at 1 for 9 s: 10 s after its start the save of step 2 comes, and so on.
    CHECK(run.job.evaluated.size() == 6);
  }

  TEST_CASE("evaluation_listener: what is final") {
    Run run;
    run.throttle = Seconds(0);
    EvaluationListener listener(run.job, run.throttle, {20, std::nullopt}, run.clock);
    listener.begin();
    listener.after_save({10, "model.ckpt-10", false});
    CHECK(run.job.exported.empty());
    SUBCASE("the last checkpoint, though max_steps was not reached") {
      listener.after_save({15, "model.ckpt-15", true});
      listener.end({15, "model.ckpt-15", true});
      CHECK(run.job.exported == Lines{"model.ckpt-15 final"});
    }
    SUBCASE("max_steps, whatever the saver says") {
      listener.after_save({20, "model.ckpt-20", false});
      listener.end({20, "model.ckpt-20", false});
      CHECK(run.job.exported == Lines{"model.ckpt-20 final"});
    }
    SUBCASE("what the end evaluates, also if it is the first save") {
      listener.end({10, "model.ckpt-10", false});
      CHECK(run.job.exported == Lines{"model.ckpt-10 final"});
    }
  }

  TEST_CASE("evaluation_listener: a run of its own starts with begin") {
    Run run;
    run.throttle = Seconds(600);
    EvaluationListener listener(run.job, run.throttle, {}, run.clock);
    for (int i = 1; i <= 2; ++i) {
      listener.begin();
      CHECK_FALSE(listener.last().has_value());
      listener.after_save({10, "model.ckpt-10", false});
      listener.after_save({20, "model.ckpt-20", false});
      CHECK(run.job.evaluated.size() == static_cast<std::size_t>(i));
      listener.end({20, "model.ckpt-20", true});
      CHECK(run.job.evaluated.size() == static_cast<std::size_t>(i));
    }
  }

  TEST_CASE(
      "evaluation_listener: a resumed run makes good what was left undone at its first save") {
    Run run;
    run.throttle = Seconds(600);
    EvaluationListener listener(run.job, run.throttle, {30, std::nullopt}, run.clock);
    run.job.undone = "model.ckpt-10";
    listener.begin();
    SUBCASE("of the checkpoint that it resumes from") {
      listener.after_save({10, "model.ckpt-10", false});
      listener.after_save({20, "model.ckpt-20", false});  // throttled
      listener.end({30, "model.ckpt-30", true});
      CHECK(run.job.exported == Lines{"model.ckpt-10", "model.ckpt-30 final"});
    }
    SUBCASE("not of another one") {
      listener.after_save({5, "model.ckpt-5", false});
      CHECK(run.job.exported.empty());
    }
  }

  TEST_CASE("evaluation_listener: without a throttle what was saved and not evaluated is, later") {
    for (const std::int64_t on_record : {0, 5, 10}) {
      CAPTURE(on_record);
      Run run;
      run.job.on_record = on_record;
      EvaluationListener listener(run.job, Seconds(0), {30, std::nullopt}, run.clock);
      listener.begin();
      listener.after_save({10, "model.ckpt-10", false});
      CHECK(run.job.evaluated == (on_record == 10 ? Lines{} : Lines{"model.ckpt-10"}));
    }
    // A fresh state is not, nor a training's that was never evaluated.
    for (const int step : {0, 10}) {
      Run run;
      EvaluationListener listener(run.job, Seconds(0), {30, std::nullopt}, run.clock);
      listener.begin();
      listener.after_save({step, text("model.ckpt-", step), false});
      CHECK(run.job.evaluated.empty());
    }
  }

  TEST_CASE("evaluation_listener: the end of a run that was over does nothing again") {
    Run run;
    EvaluationListener listener(run.job, run.throttle, {std::nullopt, 3}, run.clock);
    run.job.settled = {"model.ckpt-30"};
    listener.begin();
    listener.after_save({30, "model.ckpt-30", true});
    listener.end({30, "model.ckpt-30", true});
    CHECK(run.job.evaluated.empty());
    CHECK_FALSE(listener.last());
  }

  TEST_CASE("evaluation_listener: no metrics and a throttle below 0 are refused") {
    Run run;
    run.job.metrics.clear();
    run.throttle = Seconds(0);
    CHECK_THROWS_WITH_AS(run.train(10, 20), doctest::Contains("'model.ckpt-10' has no metrics"),
                         troupe::ConfigError);
    run.throttle = Seconds(-1);
    CHECK_THROWS_WITH_AS(run.train(10, 20), doctest::Contains("a period of -1 seconds"),
                         troupe::ConfigError);
  }
}
