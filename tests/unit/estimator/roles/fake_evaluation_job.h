// FakeEvaluationJob: an estimator of whom only the answers are there, and a sleeper that moves the
// clock instead of waiting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/evaluation/evaluation_job.h"

namespace troupe::testing {

using Lines = std::vector<std::string>;

class FakeEvaluationJob final : public EvaluationJob {
 public:
  std::function<std::optional<std::string>()> latest;
  std::map<std::string, std::int64_t> steps;  // of paths that are not "model.ckpt-<step>"
  std::function<void(const std::string&)> during_evaluation;
  std::vector<std::pair<std::string, double>> metrics{{"loss", 0.5}};
  std::optional<Finished> marker;
  std::optional<std::string> undone;                            // by a process before
  std::optional<std::int64_t> on_record;                        // evaluated by a process before
  Lines settled;                                                // paths
  std::vector<std::optional<std::string>> answers{"exported"};  // of the exporters

  Lines evaluated;  // paths
  Lines exported;   // "p1", "p2 final"
  int looks = 0;

  std::optional<std::string> latest_checkpoint() override {
    if (++looks > 100000) throw std::logic_error("looks for ever");
    return latest();
  }
  Evaluation evaluate(const std::string& checkpoint) override {
    evaluated.push_back(checkpoint);
    if (during_evaluation) during_evaluation(checkpoint);
    const auto known = steps.find(checkpoint);
    const std::int64_t step =
        known != steps.end() ? known->second : std::stoll(checkpoint.substr(11));
    return {step, metrics};
  }
  std::vector<std::optional<std::string>> export_models(const std::string& checkpoint,
                                                        const Evaluation& evaluation,
                                                        bool is_final) override {
    if (evaluation.metrics != metrics) throw std::logic_error("exports another evaluation");
    exported.push_back(checkpoint + (is_final ? " final" : ""));
    return answers;
  }
  std::optional<std::string> left_undone() override { return undone; }
  std::optional<std::int64_t> evaluated_step() override { return on_record; }
  bool is_settled(const std::string& checkpoint) override {
    return std::find(settled.begin(), settled.end(), checkpoint) != settled.end();
  }
  std::optional<Finished> finished() override { return marker; }
};

/// Moves the clock instead of waiting. Outlives what it is given to.
class FakeSleeper {
 public:
  explicit FakeSleeper(FakeClock& clock) : clock_(clock) {}

  std::function<void()> after_sleep;
  std::vector<double> sleeps;  // seconds

  void sleep(Seconds duration) {
    if (sleeps.size() > 100000) throw std::logic_error("sleeps for ever");
    sleeps.push_back(duration.count());
    clock_.advance(duration);
    if (after_sleep) after_sleep();
  }
  [[nodiscard]] double total() const {
    double sum = 0;
    for (const double seconds : sleeps) sum += seconds;
    return sum;
  }

 private:
  FakeClock& clock_;
};

}  // namespace troupe::testing
