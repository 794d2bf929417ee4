#include "troupe/train/callbacks/step_log.h"

#include <fcntl.h>

#include <iomanip>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/hooks/report.h"

namespace troupe {

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
    line += text(std::fixed, std::setprecision(3), " (", seconds, " sec)");
    if (seconds > 0) {
      line +=
          text(std::fixed, std::setprecision(1), ", global_step/sec: ", steps / seconds,
               std::setprecision(0), ", examples/sec: ", static_cast<double>(examples_) / seconds);
    }
  }
  log(line);
  last_step_ = report.step;
  last_time_ = now;
  examples_ = 0;
}

void StepLog::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  log(text(unit_, " ", epoch + 1, ": ", to_line(train),
           validation == nullptr ? "" : "; " + to_line(*validation)));
}

void StepLog::after_log(std::int64_t step, std::int64_t, const std::string& name, double value) {
  log(text(name, " = ", value, ", step = ", step));
}

void StepLog::log(const std::string& line) {
  outbox_.add([line](bool again) { log_info(line, again ? " (again)" : ""); });
}

MetricsFile::MetricsFile(std::string path, Open how, const Clock& clock, Outbox& outbox,
                         std::int64_t log_every)
    : path_(std::move(path)),
      clock_(clock),
      outbox_(outbox),
      start_(clock.now()),
      log_every_(log_every),
      first_(how != Open::later) {
  if (how != Open::later) outbox_.add([this, how](bool /*again*/) { open(how); });
}

void MetricsFile::open(Open how) {
  if (how == Open::append) {
    const UniqueFd file(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));  // NOLINT
    if (file.get() >= 0) drop_partial_line(file, path_);
  }
  out_.open(path_, how == Open::append ? std::ios::app : std::ios::trunc);
  if (out_) return;
  throw EnvironmentError("--metrics-file " + path_ + " cannot be written.",
                         "name a file in a directory that exists and is writable.");
}

void MetricsFile::write(const nlohmann::ordered_json& line) {
  outbox_.add([this, line](bool again) {
    if (!out_.is_open()) open(Open::append);  // the leader before has made it
    if (again) {
      if (!told_) told_.emplace(path_);
      if (told_->take(line)) return;
    }
    out_ << line.dump() << '\n' << std::flush;
    if (out_) return;
    throw EnvironmentError("writing to --metrics-file " + path_ + " failed.",
                           "look for a full disk.");
  });
}

void MetricsFile::after_step(const StepReport& report, RunControl& /*run*/) {
  const std::int64_t passed = report.step - std::exchange(step_, report.step);
  const bool first = std::exchange(first_, false);
  if (report.losses.empty() || !is_logged_step(report.step, first, log_every_, passed)) return;
  nlohmann::ordered_json line = {{"step", report.step}, {"epoch", report.epoch}};
  for (const auto& [name, value] : report.losses) line[name] = value;
  if (report.learning_rate) line["learning_rate"] = *report.learning_rate;
  line["examples"] = report.examples;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line);
}

void MetricsFile::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  nlohmann::ordered_json line = {{"step", step_}, {"epoch", epoch}, {"train", to_json(train)}};
  if (validation != nullptr) line["validation"] = to_json(*validation);
  write(line);
}

void MetricsFile::after_log(std::int64_t step, std::int64_t epoch, const std::string& name,
                            double value) {
  nlohmann::ordered_json line = {{"step", step}, {"epoch", epoch}};
  line[name] = value;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line);
}

}  // namespace troupe
