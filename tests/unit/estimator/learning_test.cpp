// Learning rate schedules in training: what every step's rate must be, and that an interrupted run
// ends as an uninterrupted one, bit for bit.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/estimator/learning_runs.h"
#include "troupe/train/checkpoint/run_snapshot.h"
#include "troupe/train/schedule/schedule.h"

using troupe::ScheduleOptions;
using troupe::testing::CapturedLog;
using troupe::testing::Ending;
using troupe::testing::every_schedule;
using troupe::testing::GroupHooks;
using troupe::testing::has;
using troupe::testing::learning_options;
using troupe::testing::message_of;
using troupe::testing::mirrored_options;
using troupe::testing::Rates;
using troupe::testing::rates_of;
using troupe::testing::schedule_of;
using troupe::testing::TempDir;
using troupe::testing::TinyHooks;
using troupe::testing::train_alone;
using troupe::testing::train_two;

TEST_SUITE("learning") {
  TEST_CASE("learning: interrupted at every step equals uninterrupted, with every schedule") {
    const GroupHooks hooks;
    for (const ScheduleOptions& schedule : every_schedule()) {
      CAPTURE(name_of(schedule.kind));
      const TempDir whole;
      const Ending expected = train_alone(hooks, learning_options(whole.path(), schedule));
      CHECK(expected.averages != expected.hash);
      // Epochs end at 3, 6 and 9; the first validation is the best. Step 10 begins an epoch.
      CHECK(expected.drops == (schedule.kind == troupe::Schedule::plateau ? 2 : 0));
      for (std::int64_t stop = 1; stop < 10; ++stop) {
        CAPTURE(stop);
        const TempDir dir;
        const auto options = learning_options(dir.path(), schedule);
        (void)train_alone(hooks, options, stop);
        CHECK(train_alone(hooks, options) == expected);
      }
    }
  }

  TEST_CASE("learning: the same with two workers, and with two replicas") {
    const GroupHooks hooks(0.02, GroupHooks::Dropout::off);
    for (const ScheduleOptions& schedule : every_schedule()) {
      CAPTURE(name_of(schedule.kind));
      const TempDir whole;
      const Ending expected = train_two(hooks, learning_options(whole.path(), schedule));
      for (const std::int64_t stop : {2, 6, 7}) {
        CAPTURE(stop);
        const TempDir dir;
        const auto options = learning_options(dir.path(), schedule);
        (void)train_two(hooks, options, stop);
        CHECK(train_two(hooks, options) == expected);
      }
    }
    const TempDir dir;
    const auto rates = std::make_shared<Rates>();
    auto options = learning_options(dir.path(), schedule_of(troupe::Schedule::step));
    const auto strategy = troupe::make_mirrored(mirrored_options(2));
    auto state = strategy->create_state(TinyHooks(), 1);
    const auto data = strategy->distribute(TinyHooks().create_datasets(), {8, 1});
    (void)troupe::train(*strategy, TinyHooks(), state, data, options, {{rates}, {}});
    CHECK(rates_of(*state.replicas[1]) == rates_of(*state.replicas[0]));
    CHECK(rates->set.back().front() == doctest::Approx(0.01 * 0.0625));
    CHECK_FALSE(troupe::common_parameter_hash(*strategy, state).empty());
    const std::string own = troupe::parameter_hash(*state.replicas[1]);
    const troupe::AveragesInUse averages(state);
    CHECK(troupe::parameter_hash(*state.replicas[1]) != own);
    CHECK(troupe::parameter_hash(*state.replicas[1]) == troupe::parameter_hash(*state.replicas[0]));
  }

  TEST_CASE("learning: every group of every optimiser moves by the factor of the step") {
    const TempDir dir;
    const ScheduleOptions schedule = schedule_of(troupe::Schedule::step, 2);
    const auto rates = std::make_shared<Rates>();
    (void)train_alone(GroupHooks(), learning_options(dir.path(), schedule), 0, rates);
    REQUIRE(rates->set.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) {
      CAPTURE(i);
      const double factor = troupe::schedule_factor(schedule, static_cast<std::int64_t>(i + 1));
      CHECK(rates->set[i] == std::vector<double>{0.02 * factor, 0.005 * factor, 0.01 * factor});
      REQUIRE(rates->reported[i]);
      CHECK(*rates->reported[i] == 0.02 * factor);
    }
    CHECK(rates->set[0][0] == 0.01);
    CHECK(rates->set[9][0] == doctest::Approx(0.02 * 0.125));
  }

  TEST_CASE("learning: without a schedule rates are left alone and not reported") {
    const TempDir dir;
    const auto rates = std::make_shared<Rates>();
    (void)train_alone(GroupHooks(), learning_options(dir.path(), {}), 0, rates);
    CHECK(rates->set.back() == std::vector<double>{0.02, 0.005, 0.01});
    CHECK_FALSE(rates->reported.back().has_value());
  }

  TEST_CASE("learning: the rate is in the log and in the metrics file") {
    const TempDir dir;
    auto options = learning_options(dir.path(), schedule_of(troupe::Schedule::constant, 4));
    options.log_every = 1;
    options.max_steps = 2;
    options.metrics_file = (dir / "metrics.jsonl").string();
    const CapturedLog log;
    (void)train_alone(TinyHooks(), options);
    CHECK(has(log.text(), "learning_rate = 0.0025, step = 1"));
    std::ifstream in(options.metrics_file);
    std::string line;
    std::getline(in, line);
    CHECK(nlohmann::json::parse(line).at("learning_rate") == 0.0025);
  }

  TEST_CASE("learning: a changed --learning-rate counts after a resume, without a warning") {
    const TempDir dir;
    const auto options = learning_options(dir.path(), schedule_of(troupe::Schedule::constant, 8));
    (void)train_alone(GroupHooks(0.02), options, 4);
    const auto rates = std::make_shared<Rates>();
    {
      const CapturedLog log;
      (void)train_alone(GroupHooks(0.02), options, 5, rates);
      CHECK_FALSE(has(log.text(), "learning rate"));
      CHECK_FALSE(has(log.text(), "checkpoint's lr"));
    }
    CHECK(rates->set.back().front() == 0.02 * 0.625);
    {
      const CapturedLog log;
      (void)train_alone(GroupHooks(0.04), options, 6, rates);
      CHECK(
          has(log.text(), "scheduled from create_model's 0.04; the checkpoint was made with 0.02"));
      CHECK_FALSE(has(log.text(), "checkpoint's lr"));
    }
    CHECK(rates->set.back().front() == 0.04 * 0.75);
    // Without the schedule the rate is the base, not what the last step was taken with.
    auto plain = options;
    plain.schedule = {};
    const CapturedLog log;
    (void)train_alone(GroupHooks(0.04), plain, 7, rates);
    CHECK(rates->set.back().front() == 0.04);
    CHECK_FALSE(has(log.text(), "checkpoint's lr"));
  }

  TEST_CASE("learning: a plateau's drops are saved where no validation was finite") {
    const auto strategy = troupe::make_one_device({});
    auto state = strategy->create_state(TinyHooks(), 1);
    state.plateau.drops = 2;
    const auto facts = troupe::capture(*strategy, state, {10, 2, 1}).facts;
    REQUIRE(facts.contains("plateau"));
    CHECK(facts["plateau"]["drops"] == 2);
  }

  TEST_CASE("learning: a plateau follows the metric it was given") {
    const TempDir dir;
    auto schedule = schedule_of(troupe::Schedule::plateau);
    schedule.metric = "loss";  // falls in every epoch of this task
    CHECK(train_alone(TinyHooks(), learning_options(dir.path(), schedule)).drops == 0);
  }

  TEST_CASE("learning: a plateau needs a metric that says which way is better") {
    const TempDir dir;
    const auto message_with = [&](const char* metric) {
      auto schedule = schedule_of(troupe::Schedule::plateau);
      schedule.metric = metric;
      return message_of(
          [&] { (void)train_alone(GroupHooks(), learning_options(dir.path(), schedule)); });
    };
    CHECK(has(message_with("absolute_error"), "does not say which of two values is better"));
    CHECK(message_with("flat").empty());
    // Of a higher one it is the negative that falls.
    const TinyHooks hooks;
    auto state = troupe::make_one_device({})->create_state(hooks, 1);
    auto schedule = schedule_of(troupe::Schedule::plateau);
    schedule.metric = "accuracy";
    schedule.patience = 1;
    schedule.warmup_steps = 0;
    troupe::LearningRateSchedule watched(schedule, state);
    for (const double accuracy : {0.1, 0.5, 0.9}) {
      troupe::Report report;
      report.metrics = {{"accuracy", accuracy, {}, troupe::Better::higher}};
      watched.observe(report);
    }
    CHECK(state.plateau.drops == 0);
    troupe::Report worse;
    worse.metrics = {{"accuracy", 0.8, {}, troupe::Better::higher}};
    watched.observe(worse);
    CHECK(state.plateau.drops == 1);
  }

  TEST_CASE("learning: what cannot be is refused") {
    const TempDir dir;
    const auto strategy = troupe::make_one_device({});
    const TinyHooks hooks;
    auto state = strategy->create_state(hooks, 1);
    auto data = strategy->distribute(hooks.create_datasets(), {8, 1});
    const auto train_with = [&](const ScheduleOptions& schedule, troupe::RateFactor factor) {
      auto options = learning_options("", schedule);
      troupe::Callbacks callbacks;
      callbacks.rate_factor = std::move(factor);
      return message_of(
          [&] { (void)troupe::train(*strategy, hooks, state, data, options, callbacks); });
    };
    CHECK(has(train_with(schedule_of(troupe::Schedule::plateau), nullptr),
              "name one of: loss, absolute_error"));
    CHECK(state.step == 0);  // a validation of a few examples told, before the first step
    const auto twice = [](std::int64_t) { return 2.0; };
    CHECK(has(train_with(schedule_of(troupe::Schedule::step), twice),
              "both bring a learning rate schedule"));
    CHECK(has(train_with({}, [](std::int64_t) { return -1.0; }), "factor of step 1 is -1"));
    data.validation.reset();
    CHECK(has(train_with(schedule_of(troupe::Schedule::plateau), nullptr),
              "no validation to look at"));
    CHECK(has(message_of([&] { troupe::keep_averages(state, 1); }), "--ema-decay is 1"));
    CHECK(has(message_of([&] {
                troupe::LearningRateSchedule(schedule_of(troupe::Schedule::cosine), state);
              }),
              "cosine has no end"));
    CHECK(state.step == 0);
    CHECK(train_with({}, twice).empty());
    CHECK(rates_of(*state.replicas.front()) == std::vector<double>{0.02});
    CHECK(state.step == 10);
  }

  TEST_CASE("learning: a loop of one's own needs no train()") {
    const auto strategy = troupe::make_one_device({});
    auto state = strategy->create_state(GroupHooks(), 1);
    troupe::LearningRateSchedule schedule(schedule_of(troupe::Schedule::cosine), state, 4);
    schedule.apply(3);
    CHECK(*schedule.rate() == doctest::Approx(0.01));
    CHECK(rates_of(*state.replicas.front())[1] == doctest::Approx(0.0025));
    troupe::LearningRateSchedule own([](std::int64_t step) { return 1.0 / step; }, state);
    own.apply(2);
    CHECK(*own.rate() == 0.01);  // of create_model's rate, not of the last one
  }
}
