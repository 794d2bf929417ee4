#include "train/callbacks/value_log.h"

#include <iomanip>
#include <utility>

#include "core/log.h"

namespace troupe {

ValueLog::ValueLog(Source source, Options options, const Clock& clock)
    : source_(std::move(source)), options_(std::move(options)) {
  const bool periodic = options_.every.steps || options_.every.seconds;
  if (!periodic && options_.at_end) return;
  options_.every.validate("ValueLog");
  timer_.emplace(options_.every, clock);
}

void ValueLog::begin() {
  if (timer_) timer_->reset();
  steps_of_run_ = 0;
}

void ValueLog::after_step(const StepReport& /*report*/, RunControl& /*run*/) {
  if (timer_ && timer_->due(steps_of_run_)) log_values();
  ++steps_of_run_;
}

void ValueLog::end(RunControl& /*run*/) {
  if (options_.at_end) log_values();
}

void ValueLog::log_values() {
  const auto elapsed = timer_ ? timer_->mark(steps_of_run_) : StepTimer::Elapsed{};
  const NamedValues values = source_();
  if (options_.format) {
    log_info(options_.format(values));
  } else if (elapsed.seconds) {
    log_info(to_line(values), " (", std::fixed, std::setprecision(3), elapsed.seconds->count(),
             " sec)");
  } else {
    log_info(to_line(values));
  }
}

}  // namespace troupe
