// The learning rate's factors against values worked out by hand.
#include "troupe/train/schedule/schedule_factor.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"

using troupe::observe;
using troupe::PlateauAnswer;
using troupe::Schedule;
using troupe::schedule_factor;
using troupe::ScheduleOptions;
using troupe::detail::PlateauState;

namespace {

ScheduleOptions schedule_of(Schedule kind) {
  ScheduleOptions options;
  options.kind = kind;
  return options;
}

/// The factors of steps 1, 2, ...
void check_factors(const ScheduleOptions& options, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i + 1);
    CAPTURE(step);
    CHECK(schedule_factor(options, step) == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

}  // namespace

TEST_SUITE("schedule") {
  TEST_CASE("schedule: constant is 1, and not called a schedule") {
    check_factors(schedule_of(Schedule::constant), {1, 1, 1});
    CHECK_FALSE(troupe::is_scheduled(schedule_of(Schedule::constant)));
    CHECK(troupe::is_scheduled(schedule_of(Schedule::cosine)));
  }

  TEST_CASE("schedule: the warm-up rises linearly and its last step is exactly 1") {
    ScheduleOptions options = schedule_of(Schedule::constant);
    options.warmup_steps = 4;
    CHECK(troupe::is_scheduled(options));
    check_factors(options, {0.25, 0.5, 0.75, 1, 1, 1});
    CHECK(schedule_factor(options, 4) == 1);
    CHECK(schedule_factor(options, std::numeric_limits<std::int64_t>::max()) == 1);
  }

  TEST_CASE("schedule: step drops after every decay_steps, down to final_factor") {
    ScheduleOptions options = schedule_of(Schedule::step);
    options.decay_steps = 2;
    options.decay_factor = 0.5;
    check_factors(options, {1, 1, 0.5, 0.5, 0.25, 0.25, 0.125});
    options.final_factor = 0.3;
    check_factors(options, {1, 1, 0.5, 0.5, 0.3, 0.3, 0.3});
    options.warmup_steps = 2;
    check_factors(options, {0.5, 1, 1, 1, 0.5, 0.5, 0.3});
  }

  TEST_CASE("schedule: cosine falls over decay_steps and stays") {
    ScheduleOptions options = schedule_of(Schedule::cosine);
    options.decay_steps = 4;
    const double eighth = std::sqrt(0.5);  // cos(pi / 4)
    check_factors(options, {1, (1 + eighth) / 2, 0.5, (1 - eighth) / 2, 0, 0, 0});
    options.final_factor = 0.2;
    check_factors(options, {1, 0.2 + 0.4 * (1 + eighth), 0.6, 0.2 + 0.4 * (1 - eighth), 0.2, 0.2});
    options.warmup_steps = 1;
    check_factors(options, {1, 1, 0.2 + 0.4 * (1 + eighth), 0.6, 0.2 + 0.4 * (1 - eighth), 0.2});
  }

  TEST_CASE("schedule: a plateau drops at the patience-th validation without improvement") {
    ScheduleOptions options = schedule_of(Schedule::plateau);
    options.patience = 2;
    PlateauState state;
    CHECK(schedule_factor(options, 1, state) == 1);
    CHECK(observe(options, 0.5, state) == PlateauAnswer::none);  // the first is the best
    CHECK(observe(options, 0.5, state) == PlateauAnswer::none);  // equal is not better
    CHECK(state.since == 1);
    CHECK(observe(options, 0.4, state) == PlateauAnswer::none);  // better: counted anew
    CHECK(observe(options, 0.6, state) == PlateauAnswer::none);
    CHECK(observe(options, 0.41, state) == PlateauAnswer::dropped);
    CHECK(schedule_factor(options, 9, state) == doctest::Approx(0.1));
    CHECK(observe(options, 0.41, state) == PlateauAnswer::none);  // since the drop: one
    CHECK(observe(options, 0.41, state) == PlateauAnswer::dropped);
    CHECK(schedule_factor(options, 9, state) == doctest::Approx(0.01));
    CHECK(state.drops == 2);
    CHECK(*state.best == 0.4);
    options.final_factor = 0.05;
    CHECK(schedule_factor(options, 9, state) == 0.05);
    options.warmup_steps = 18;
    CHECK(schedule_factor(options, 9, state) == 0.025);
  }

  TEST_CASE("schedule: a metric that is not finite is no improvement") {
    ScheduleOptions options = schedule_of(Schedule::plateau);
    options.patience = 3;
    PlateauState state;
    CHECK(observe(options, std::nan(""), state) == PlateauAnswer::none);
    CHECK_FALSE(state.best.has_value());
    CHECK(observe(options, -std::numeric_limits<double>::infinity(), state) == PlateauAnswer::none);
    CHECK(observe(options, std::nan(""), state) == PlateauAnswer::dropped);
    CHECK(observe(options, 3, state) == PlateauAnswer::none);
    CHECK(*state.best == 3);
  }

  TEST_CASE("schedule: options that make no sense name their flag") {
    const auto message = [](const ScheduleOptions& options) -> std::string {
      try {
        troupe::validate(options);
      } catch (const troupe::ConfigError& error) {
        return error.what();
      }
      return "";
    };
    CHECK(message({}).empty());
    CHECK(message(schedule_of(Schedule::step)).find("--decay-steps") != std::string::npos);
    ScheduleOptions options;
    options.warmup_steps = -1;
    CHECK(message(options).find("--warmup-steps") != std::string::npos);
    options = {};
    options.decay_factor = 1;
    CHECK(message(options).find("--decay-factor") != std::string::npos);
    options = {};
    options.final_factor = std::nan("");
    CHECK(message(options).find("--final-factor") != std::string::npos);
    options = {};
    options.patience = 0;
    CHECK(message(options).find("--plateau") != std::string::npos);
  }
}
