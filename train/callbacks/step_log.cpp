#include "train/callbacks/step_log.h"

#include <iomanip>
#include <sstream>
#include <utility>

#include "core/log.h"

namespace troupe {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

}  // namespace

void StepLog::begin() {
  first_ = true;
  last_step_ = -1;
  examples_ = 0;
  seen_ = 0;
}

void StepLog::after_step(const StepReport& report, RunControl& /*run*/) {
  examples_ += report.examples;
  const bool first = std::exchange(first_, false);
  const std::int64_t passed = report.step - std::exchange(seen_, report.step);
  if (report.losses.empty() || !is_logged_step(report.step, first, log_every_, passed)) return;
  std::string line;
  for (const auto& [name, value] : report.losses) line += text(name, " = ", value, ", ");
  if (report.learning_rate) line += text("learning_rate = ", *report.learning_rate, ", ");
  line += text("step = ", report.step);
  const auto now = clock_.now();
  if (last_step_ >= 0) {
    const double seconds = Seconds(now - last_time_).count();
    const auto steps = static_cast<double>(report.step - last_step_);
    line += text(" (", fixed(seconds, 3), " sec)");
    if (seconds > 0) {
      line += text(", global_step/sec: ", fixed(steps / seconds, 1),
                   ", examples/sec: ", fixed(static_cast<double>(examples_) / seconds, 0));
    }
  }
  log_info(line);
  last_step_ = report.step;
  last_time_ = now;
  examples_ = 0;
}

void StepLog::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  log_info("epoch ", epoch + 1, ": ", to_line(train));
  if (validation != nullptr) log_info("epoch ", epoch + 1, ": ", to_line(*validation));
}

void StepLog::after_log(const LoggedValue& value) {
  log_info(value.name, " = ", value.value, ", step = ", value.step);
}

}  // namespace troupe
