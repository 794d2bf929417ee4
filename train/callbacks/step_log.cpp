#include "train/callbacks/step_log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "train/report.h"

namespace troupe {
namespace {

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::int64_t kMostCells = 30;
constexpr std::int64_t kFewestCells = 5;
constexpr std::int64_t kUsualColumns = 80;  // of a terminal that does not say

std::int64_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
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

ProgressBar::ProgressBar(std::int64_t total_steps, const Clock& clock)
    : total_steps_(std::max<std::int64_t>(total_steps, 1)),
      clock_(clock),
      last_drawn_(clock.now()) {}

std::string progress_line(std::int64_t step, std::int64_t total_steps, std::int64_t columns) {
  const std::string numbers = text("] step ", step, " of ", total_steps);
  // The last column stays free: some terminals wrap as soon as it is written.
  const auto room = columns - 2 - static_cast<std::int64_t>(numbers.size());
  if (room < kFewestCells) return "";
  const auto cells = std::min(kMostCells, room);
  const auto done = std::min(cells, step * cells / total_steps);
  return text("[", std::string(static_cast<std::size_t>(done), '='),
              std::string(static_cast<std::size_t>(cells - done), ' '), numbers);
}

ProgressBar::~ProgressBar() { set_status_line(""); }

bool ProgressBar::has_terminal() { return isatty(STDERR_FILENO) == 1; }

void ProgressBar::after_step(const StepReport& report, RunControl& /*run*/) {
  const auto now = clock_.now();
  if (now - last_drawn_ < kInterval && report.step != total_steps_) return;
  last_drawn_ = now;
  set_status_line(progress_line(report.step, total_steps_, terminal_columns()));
}

void ProgressBar::after_epoch(std::int64_t, const Report&, const Report*) { set_status_line(""); }

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
  nlohmann::ordered_json line = {{"step", report.step}, {"epoch", report.epoch}};
  for (const auto& [name, value] : report.losses) line[name] = value;
  if (report.learning_rate) line["learning_rate"] = *report.learning_rate;
  line["examples"] = report.examples;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line.dump());
}

void MetricsFile::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  nlohmann::ordered_json line = {{"step", step_}, {"epoch", epoch}, {"train", to_json(train)}};
  if (validation != nullptr) line["validation"] = to_json(*validation);
  write(line.dump());
}

void MetricsFile::after_log(const LoggedValue& value) {
  nlohmann::ordered_json line = {{"step", value.step}, {"epoch", value.epoch}};
  line[value.name] = value.value;
  line["seconds"] = Seconds(clock_.now() - start_).count();
  write(line.dump());
}

}  // namespace troupe
