#include "troupe/train/schedule/schedule_factor.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace troupe {
namespace {

constexpr double kPi = 3.14159265358979323846;

void require(bool holds, const std::string& problem, const char* fix) {
  if (!holds) throw ConfigError(problem, fix);
}

double power(double factor, std::int64_t exponent) {
  return std::pow(factor, static_cast<double>(exponent));
}

/// Without the warm-up. `t`: steps after the warm-up before this one.
double decay(const ScheduleOptions& options, std::int64_t t, const detail::PlateauState& plateau) {
  if (options.kind == Schedule::step) {
    return std::max(options.final_factor, power(options.decay_factor, t / options.decay_steps));
  }
  if (options.kind == Schedule::plateau) {
    return std::max(options.final_factor, power(options.decay_factor, plateau.drops));
  }
  if (options.kind == Schedule::cosine) {
    const double part =
        std::min(1.0, static_cast<double>(t) / static_cast<double>(options.decay_steps));
    return options.final_factor + (1 - options.final_factor) * (1 + std::cos(kPi * part)) / 2;
  }
  return 1;
}

}  // namespace

bool is_scheduled(const ScheduleOptions& options) {
  return options.kind != Schedule::constant || options.warmup_steps > 0;
}

void validate(const ScheduleOptions& options) {
  require(options.warmup_steps >= 0, text("--warmup-steps is ", options.warmup_steps, "."),
          "give a number of at least 0.");
  require(options.decay_steps >= 0, text("--decay-steps is ", options.decay_steps, "."),
          "give a number of at least 0.");
  require(options.kind != Schedule::step || options.decay_steps > 0,
          "--lr-schedule step does not say after how many steps the rate drops.",
          "set --decay-steps.");
  require(options.decay_factor > 0 && options.decay_factor < 1,
          text("--decay-factor is ", options.decay_factor, "."),
          "give a number above 0 and below 1.");
  require(options.final_factor >= 0 && options.final_factor <= 1,
          text("--final-factor is ", options.final_factor, "."), "give a number from 0 to 1.");
  require(options.patience >= 1, text("--plateau waits for ", options.patience, " validations."),
          "give METRIC:N with an N of at least 1.");
}

double schedule_factor(const ScheduleOptions& options, std::int64_t step,
                       const detail::PlateauState& plateau) {
  const std::int64_t warmup = options.warmup_steps;
  const double risen =
      step < warmup ? static_cast<double>(step) / static_cast<double>(warmup) : 1.0;
  return risen * decay(options, std::max<std::int64_t>(0, step - warmup - 1), plateau);
}

PlateauAnswer observe(const ScheduleOptions& options, double value, detail::PlateauState& plateau) {
  if (std::isfinite(value) && (!plateau.best || value < *plateau.best)) {
    plateau.best = value;
    plateau.since = 0;
    return PlateauAnswer::none;
  }
  if (++plateau.since < options.patience) return PlateauAnswer::none;
  plateau.since = 0;
  ++plateau.drops;
  return PlateauAnswer::dropped;
}

}  // namespace troupe
