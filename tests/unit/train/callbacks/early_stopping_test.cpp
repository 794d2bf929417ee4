#include "troupe/train/callbacks/early_stopping.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_run.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/report/summary_writer.h"
#include "troupe/train/callbacks/stop_rules.h"

using troupe::ConfigError;
using troupe::Every;
using troupe::make_early_stopping;
using troupe::ScalarHistory;
using troupe::Seconds;
using troupe::stop_reason;
using troupe::StopReason;
using troupe::StopRule;
using troupe::testing::FakeClock;
using troupe::testing::FakeRun;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

StopRule rule(const std::string& written) {
  const auto parsed = troupe::parse_stop_rule(written);
  REQUIRE(parsed.has_value());
  return *parsed;
}

ScalarHistory evaluations() {
  return {{1000, {{"loss", .8}, {"accuracy", .5}}},
          {2000, {{"loss", .7}, {"accuracy", .6}}},
          {3000, {{"loss", .4}, {"accuracy", .7}}},
          {3500, {{"loss", .41}, {"accuracy", .68}}}};
}

}  // namespace

TEST_SUITE("train/callbacks") {
  TEST_CASE("stop rules: a value is reached, from min_steps on") {
    const auto history = evaluations();
    CHECK_FALSE(stop_reason(rule("accuracy:max=0.8"), history));
    CHECK(stop_reason(rule("accuracy:max=0.6"), history) ==
          StopReason("accuracy = 0.6 at step 2000 has reached 0.6"));
    CHECK_FALSE(stop_reason(rule("accuracy:max=0.6"), history, 4000));
    CHECK(stop_reason(rule("accuracy:max=0.6"), history, 3500));  // min_steps itself counts
    CHECK_FALSE(stop_reason(rule("loss=0.39"), history));
    CHECK(stop_reason(rule("loss=0.405"), history) ==
          StopReason("loss = 0.4 at step 3000 has reached 0.405"));
    CHECK(stop_reason(rule("loss:max=0.8"), history));
  }

  TEST_CASE("stop rules: no better value, the exact number of steps counts") {
    const auto history = evaluations();
    CHECK_FALSE(stop_reason(rule("accuracy:max:1500"), history));
    CHECK(stop_reason(rule("accuracy:max:500"), history) ==
          StopReason("accuracy has not increased for 500 steps: the best was 0.7 at step 3000"));
    CHECK_FALSE(stop_reason(rule("accuracy:max:501"), history));
    CHECK_FALSE(stop_reason(rule("accuracy:max:500"), history, 4000));
    CHECK_FALSE(stop_reason(rule("loss:1500"), history));
    CHECK(stop_reason(rule("loss:500"), history));
    CHECK_FALSE(stop_reason(rule("loss:501"), history));
    // Large steps are shown as they are.
    const ScalarHistory long_ago = {{12'345'678, {{"loss", 1}}}, {12'345'679, {{"loss", 1}}}};
    CHECK(stop_reason(rule("loss:1"), long_ago) ==
          StopReason("loss has not decreased for 1 steps: the best was 1 at step 12345678"));
  }

  TEST_CASE("stop rules: only a strictly better value is better") {
    const ScalarHistory flat = {{10, {{"loss", 1}}}, {20, {{"loss", 1}}}};
    CHECK(stop_reason(rule("loss:min:10"), flat));
    CHECK(stop_reason(rule("loss:max:10"), flat));
  }

  TEST_CASE("stop rules: a stretch without progress counts, also when progress came later") {
    const ScalarHistory late = {
        {10, {{"loss", 1}}}, {20, {{"loss", 2}}}, {30, {{"loss", 3}}}, {40, {{"loss", 0}}}};
    CHECK(stop_reason(rule("loss:20"), late));
    CHECK_FALSE(stop_reason(rule("loss:30"), late));
  }

  TEST_CASE("stop rules: NaN is never better, and the first number after it is") {
    const ScalarHistory dead = {{10, {{"loss", kNan}}}, {20, {{"loss", kNan}}}};
    CHECK(stop_reason(rule("loss:10"), dead) ==
          StopReason("loss has not decreased for 10 steps: it has been NaN since step 10"));
    CHECK_FALSE(stop_reason(rule("loss:11"), dead));
    CHECK_FALSE(stop_reason(rule("loss=1"), dead));
    CHECK_FALSE(stop_reason(rule("loss:max=-1"), dead));
    const ScalarHistory recovers = {{10, {{"loss", kNan}}}, {20, {{"loss", 5}}}};
    CHECK_FALSE(stop_reason(rule("loss:10"), recovers));
    const ScalarHistory breaks = {{10, {{"loss", 5}}}, {20, {{"loss", kNan}}}, {30, {{"loss", 6}}}};
    CHECK(stop_reason(rule("loss:20"), breaks));
  }

  TEST_CASE("stop rules: an empty history is no reason, a metric nobody has is an error") {
    CHECK_FALSE(stop_reason(rule("loss:1"), ScalarHistory()));
    CHECK_THROWS_WITH_AS((void)stop_reason(rule("acuracy:max=0.5"), evaluations()),
                         doctest::Contains("name one of: accuracy, loss."), ConfigError);
    CHECK_THROWS_AS((void)stop_reason(rule("f1:max:500"), evaluations(), 4000), ConfigError);
    const ScalarHistory mixed = {{10, {{"other", 1}}}, {20, {{"loss", .1}}}};
    CHECK(stop_reason(rule("loss=0.2"), mixed));  // missing at some steps only
  }

  TEST_CASE("stop rules: which way is better is known of losses, or said") {
    CHECK_THROWS_WITH_AS((void)stop_reason(rule("accuracy:500"), evaluations()),
                         doctest::Contains("give accuracy:max or accuracy:min"), ConfigError);
    const ScalarHistory average = {{10, {{"average_loss", 1}}}, {20, {{"average_loss", 2}}}};
    CHECK(stop_reason(rule("average_loss:10"), average));
  }

  TEST_CASE("stop rules: one has steps of at least one, or a value") {
    CHECK_THROWS_AS((void)stop_reason({{"loss"}, 0}, evaluations()), ConfigError);
    CHECK_THROWS_AS((void)stop_reason({{"loss"}}, evaluations()), ConfigError);
    CHECK_THROWS_AS((void)stop_reason({{"loss"}, 5, 0.5}, evaluations()), ConfigError);
  }

  TEST_CASE("stop rules: as text and back") {
    for (const char* const written :
         {"loss:500", "accuracy:max:5", "a:b:min:7", "accuracy=0.98", "f1:max=-1.5", "x=1e-07"}) {
      CAPTURE(written);
      CHECK(troupe::to_text(rule(written)) == written);
    }
    CHECK(rule("a:b:min:7").by.metric == "a:b");
    for (const char* const wrong : {"", "loss", ":5", "loss:", "loss:0", "loss:1.5",
                                    "loss=", "loss=nan", "=1", ":max:5", "loss:max"}) {
      CAPTURE(wrong);
      CHECK_FALSE(troupe::parse_stop_rule(wrong));
    }
    CHECK(troupe::to_text(*troupe::parse_metric_rule("accuracy:max")) == "accuracy:max");
    CHECK(troupe::parse_metric_rule("max")->better == troupe::Better::unknown);
    for (const char* const wrong : {"", ":max"}) CHECK_FALSE(troupe::parse_metric_rule(wrong));
  }

  TEST_CASE("early_stopping: two conditions, one of them is enough") {
    const auto stops = [history = evaluations()](const char* one, const char* other) {
      const FakeClock clock;
      FakeRun run;
      for (const char* const written : {one, other}) {
        run.take_step(*make_early_stopping([&] { return stop_reason(rule(written), history); },
                                           Every::n_steps(1), clock));
      }
      return run.stops();
    };
    CHECK_FALSE(stops("loss:1500", "loss=0.3"));
    CHECK(stops("loss:1500", "loss=0.5"));
    CHECK(stops("loss:500", "loss=0.3"));
  }

  TEST_CASE("early_stopping: by a rule over the evaluations of a directory") {
    const troupe::testing::TempDir folder;
    const FakeClock clock;
    FakeRun run;
    const auto action =
        make_early_stopping(rule("loss:500"), folder.path(), Every::n_steps(1), clock);
    run.take_step(*action);
    CHECK_FALSE(run.stops());  // nothing was evaluated
    troupe::SummaryWriter(folder.path()).write(3000, {{"loss", .4}});
    run.take_step(*action);
    CHECK_FALSE(run.stops());
    troupe::SummaryWriter(folder.path()).write(3500, {{"loss", .5}});
    run.take_step(*action);
    CHECK(run.reasons() ==
          std::vector<std::string>{
              "loss has not decreased for 500 steps: the best was 0.4 at step 3000"});
    const auto wrong =
        make_early_stopping(rule("lost:500"), folder.path(), Every::n_steps(1), clock);
    CHECK_THROWS_AS(run.take_step(*wrong), ConfigError);
  }

  TEST_CASE("early_stopping: asks after the run's first step and then once a period") {
    FakeClock clock;
    FakeRun run(500);
    std::vector<std::int64_t> asked;
    const auto action = make_early_stopping(
        [&]() -> StopReason {
          asked.push_back(run.step());
          return asked.size() < 3 ? StopReason() : StopReason("enough");
        },
        Every::n_seconds(60), clock);
    CHECK(action->chief_only());
    action->begin();
    for (int i = 0; i < 5; ++i) {
      run.take_step(*action);
      clock.advance(Seconds(30));
    }
    CHECK(asked == std::vector<std::int64_t>{501, 503, 505});
    CHECK(run.reasons() == std::vector<std::string>{"enough"});
  }

  TEST_CASE("early_stopping: a run that goes on asks at the steps of an uninterrupted one") {
    const FakeClock clock;
    for (const std::int64_t done : {0, 57, 100, 101}) {
      CAPTURE(done);
      FakeRun run(done);
      std::vector<std::int64_t> asked;
      const auto action = make_early_stopping(
          [&] {
            asked.push_back(run.step());
            return StopReason();
          },
          Every::n_steps(100), clock);
      action->begin();
      action->ready(run);
      while (run.step() < 201) run.take_step(*action);
      CHECK(asked.back() == 201);
      CHECK(asked.front() == (done == 0 ? 1 : 101));  // of those due, also the one it resumes at
    }
  }

  TEST_CASE("early_stopping: both periods, or no predicate, are refused") {
    const FakeClock clock;
    const auto never = [] { return StopReason(); };
    CHECK_THROWS_WITH_AS((void)make_early_stopping(never, Every{10, Seconds(60)}, clock),
                         doctest::Contains("early stopping was given both"), ConfigError);
    CHECK_THROWS_AS((void)make_early_stopping(never, Every{}, clock), ConfigError);
    CHECK_THROWS_AS((void)make_early_stopping(nullptr, Every::n_steps(1), clock), ConfigError);
  }
}
