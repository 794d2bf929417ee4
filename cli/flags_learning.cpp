#include "cli/flags_learning.h"

#include <cstdint>
#include <string>
#include <utility>

#include "cli/flags_making.h"

namespace troupe::detail {
namespace {

Flag schedule_name(ScheduleOptions& schedule) {
  return choice(
      "lr-schedule", &schedule.kind,
      "how the learning rate falls: constant, step, cosine or plateau", "NAME",
      named<Schedule>({Schedule::constant, Schedule::step, Schedule::cosine, Schedule::plateau}));
}

}  // namespace

void add_learning_flags(std::vector<Flag>& flags, TrainOptions& train) {
  const auto add = [&](Flag made) {
    flags.push_back(in_group(std::move(made), "Learning rate and averages"));
  };
  ScheduleOptions& schedule = train.schedule;
  constexpr std::int64_t most = INT64_MAX;
  add(schedule_name(schedule));
  add(whole<std::int64_t>("warmup-steps", &schedule.warmup_steps,
                          "the rate rises linearly over the first N steps; 0: no warm-up", 0,
                          most));
  add(whole<std::int64_t>("decay-steps", &schedule.decay_steps,
                          "step: steps between two drops; cosine: steps from the warm-up to the "
                          "smallest rate, 0: to the last step of the run",
                          0, most));
  add(real(
      "decay-factor", &schedule.decay_factor,
      "step and plateau: what the rate is multiplied by at a drop",
      [](double x) { return x > 0 && x < 1; }, "give a number above 0 and below 1."));
  add(real(
      "final-factor", &schedule.final_factor,
      "the schedule goes no lower than this part of --learning-rate",
      [](double x) { return x >= 0 && x <= 1; }, "give a number from 0 to 1."));
  add(path("plateau-metric", &schedule.metric,
           "plateau: the metric or loss of the validation to watch; smaller is better", "METRIC"));
  add(whole<std::int64_t>("plateau-patience", &schedule.patience,
                          "plateau: drop after N validations without improvement", 1, most));
  add(real(
      "ema-decay", &train.ema_decay,
      "evaluate with averages of the weights that keep this part of themselves each step (0.999); "
      "0: none",
      [](double x) { return x >= 0 && x < 1; }, "give a number of at least 0 and below 1."));
}

const std::vector<const char*>& learning_flag_names() {
  static const std::vector<const char*> names = {
      "lr-schedule",  "warmup-steps",   "decay-steps",      "decay-factor",
      "final-factor", "plateau-metric", "plateau-patience", "ema-decay"};
  return names;
}

}  // namespace troupe::detail
