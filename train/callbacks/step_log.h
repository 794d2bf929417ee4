// What a run says of its steps: lines in the log, and JSON in a file.
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/report/json_lines.h"
#include "troupe/report/outbox.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe {

/// The first step of a run and every step that is a multiple of `log_every`; 0: none. Where other
/// workers take some of the steps, `passed` since the one seen before: the first one after that.
[[nodiscard]] constexpr bool is_logged_step(std::int64_t step, bool first, std::int64_t log_every,
                                            std::int64_t passed = 1) {
  return log_every > 0 && (first || step / log_every > (step - passed) / log_every);
}

/// One line per logged step in the form that Estimator's users know,
///   loss = 0.3121, step = 200 (0.514 sec), global_step/sec: 194.6, examples/sec: 12451
/// and one line at the end of an epoch: what training came to, and the validation after it.
class StepLog final : public PeriodicAction {
 public:
  /// A logged step whose losses are known gets a line; losses may also be there because another
  /// action wanted them. `clock` and `outbox` outlive this object.
  StepLog(const Clock& clock, Outbox& outbox, std::int64_t log_every = 1,
          std::string unit = "epoch")
      : clock_(clock),
        outbox_(outbox),
        log_every_(log_every),
        unit_(std::move(unit)),
        last_time_(clock.now()) {}
  void ready(RunControl& run) override { seen_ = run.step(); }
  void after_step(const StepReport& report, RunControl& run) override;
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  void after_log(std::int64_t step, std::int64_t epoch, const std::string& name,
                 double value) override;
  /// This worker has joined a run under way: its first step is not the run's.
  void join() { first_ = false; }

 private:
  void log(const std::string& line);

  const Clock& clock_;
  Outbox& outbox_;
  std::int64_t log_every_;
  const std::string unit_;
  bool first_ = true;  // no step of this run was seen yet
  Clock::TimePoint last_time_;
  std::int64_t last_step_ = -1;  // of the last line; -1: none yet, so no duration either
  std::int64_t examples_ = 0;    // since the last line
  std::int64_t seen_ = 0;        // the step before
};

/// One JSON object a line per logged step, for programs to read.
class MetricsFile final : public PeriodicAction {
 public:
  /// A resumed run appends to what the former one wrote. `later`: this worker has joined a run
  /// whose leader has opened the file, and appends to it when it leads itself.
  enum class Open { anew, append, later };
  /// Logged are the steps that StepLog logs. `clock` and `outbox` outlive this object.
  /// Throws: EnvironmentError, on the leader, when `path` cannot be written.
  MetricsFile(std::string path, Open open, const Clock& clock, Outbox& outbox,
              std::int64_t log_every = 1);
  void ready(RunControl& run) override { step_ = run.step(); }
  /// {"step": 100, "epoch": 0, "loss": 0.31, "seconds": 1.7}; seconds since the file was started.
  void after_step(const StepReport& report, RunControl& run) override;
  /// {"step": 938, "epoch": 0, "train": {...}, "validation": {...}}
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation) override;
  /// {"step": 100, "epoch": 0, "clip": 0.05, "seconds": 1.7}
  void after_log(std::int64_t step, std::int64_t epoch, const std::string& name,
                 double value) override;

 private:
  void open(Open how);
  /// Once, whoever writes: see Outbox.
  void write(const nlohmann::ordered_json& line);

  std::string path_;
  const Clock& clock_;
  Outbox& outbox_;
  Clock::TimePoint start_;
  std::int64_t log_every_;
  bool first_ = true;  // no step of this run was seen yet
  std::int64_t step_ = 0;
  std::ofstream out_;
  std::optional<ToldLines> told_;  // before the first record that is told again
};

}  // namespace troupe
