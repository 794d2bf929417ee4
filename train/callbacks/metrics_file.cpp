#include "train/callbacks/metrics_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "train/callbacks/step_log.h"
#include "train/report.h"

namespace troupe {

MetricsFile::MetricsFile(std::string path, Open open, const Clock& clock, std::int64_t log_every)
    : path_(std::move(path)),
      clock_(clock),
      start_(clock.now()),
      log_every_(log_every),
      out_(path_, open == Open::append ? std::ios::app : std::ios::trunc) {
  if (!out_) {
    throw EnvironmentError("--metrics-file " + path_ + " cannot be written.",
                           "name a file in a directory that exists and is writable.");
  }
}

void MetricsFile::write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  if (!out_) {
    throw EnvironmentError("writing to --metrics-file " + path_ + " failed.",
                           "look for a full disk.");
  }
}

void MetricsFile::after_step(const StepReport& report, RunControl& /*run*/) {
  const std::int64_t passed = report.step - std::exchange(step_, report.step);
  const bool first = std::exchange(first_, false);
  if (report.losses.empty() || !is_logged_step(report.step, first, log_every_, passed)) return;
  nlohmann::ordered_json line;
  line["step"] = report.step;
  line["epoch"] = report.epoch;
  for (const auto& [name, value] : report.losses) line[name] = value;
  if (report.learning_rate) line["learning_rate"] = *report.learning_rate;
  line["examples"] = report.examples;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line.dump());
}

void MetricsFile::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  nlohmann::ordered_json line;
  line["step"] = step_;
  line["epoch"] = epoch;
  line["train"] = to_json(train);
  if (validation != nullptr) line["validation"] = to_json(*validation);
  write(line.dump());
}

void MetricsFile::after_log(const LoggedValue& value) {
  nlohmann::ordered_json line;
  line["step"] = value.step;
  line["epoch"] = value.epoch;
  line[value.name] = value.value;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line.dump());
}

}  // namespace troupe
