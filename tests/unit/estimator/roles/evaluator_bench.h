// EvaluatorBench: an evaluator on a fake estimator and a fake clock.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "tests/support/captured_log.h"
#include "tests/unit/estimator/roles/fake_evaluation_job.h"
#include "troupe/train/evaluation/evaluator.h"

namespace troupe::testing {

/// An evaluator at time 0, without a delay and a throttle.
struct EvaluatorBench {
  FakeClock clock;
  FakeEvaluationJob job;
  FakeSleeper sleeper{clock};
  EvaluatorOptions options;
  CapturedLog log;
  const Clock::TimePoint zero = clock.now();

  EvaluatorBench() {
    options.start_delay = Seconds(0);
    options.throttle = Seconds(0);
  }

  [[nodiscard]] double now() const { return Seconds(clock.now() - zero).count(); }
  /// The looks' answers, "" for none; the last one stays.
  void latest(const Lines& answers) {
    job.latest = [answers, at = std::size_t{0}]() mutable -> std::optional<std::string> {
      const std::string& answer = answers[std::min(at++, answers.size() - 1)];
      if (answer.empty()) return std::nullopt;
      return answer;
    };
  }
  /// From each time on, the newest checkpoint.
  void latest_at(const std::map<double, std::string>& times) {
    job.latest = [this, times]() -> std::optional<std::string> {
      const auto next = times.upper_bound(now());
      if (next == times.begin()) return std::nullopt;
      return std::prev(next)->second;
    };
  }
  std::optional<EvaluationRound> run() {
    return run_evaluator(job, options, clock, [this](Seconds time) { sleeper.sleep(time); });
  }
};

}  // namespace troupe::testing
