#include "troupe/train/callbacks/early_stopping.h"

#include <algorithm>
#include <utility>

#include "troupe/core/error.h"
#include "troupe/train/callbacks/step_timer.h"
#include "troupe/train/callbacks/stop_rules.h"
#include "troupe/train/callbacks/summary_saver.h"

namespace troupe {
namespace {

class EarlyStopping final : public PeriodicAction {
 public:
  EarlyStopping(std::function<StopReason()> predicate, const Every& every, const Clock& clock)
      : predicate_(std::move(predicate)), every_(every), timer_(every, clock, "early stopping") {}

  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { timer_.reset(); }
  /// A run that resumes at a step that is due looks at once, as the one that came there did.
  void ready(RunControl& run) override {
    seen_ = run.step();
    if (every_.steps && seen_ > 0 && is_summary_step(seen_, *every_.steps)) look(run);
  }
  /// By steps it depends on the step alone: where a chief was lost, the next one looks at the same.
  void after_step(const StepReport& report, RunControl& run) override {
    // Of a chief that was lost in this step it is told again.
    const auto passed = std::max<std::int64_t>(1, report.step - std::exchange(seen_, report.step));
    const bool due = every_.steps ? is_summary_step(report.step, *every_.steps, passed)
                                  : timer_.due(report.step);
    if (!due) return;
    timer_.mark(report.step);
    look(run);
  }

 private:
  void look(RunControl& run) {
    if (const StopReason reason = predicate_()) run.request_stop(*reason);
  }

  std::function<StopReason()> predicate_;
  const Every every_;
  StepTimer timer_;
  std::int64_t seen_ = 0;
};

}  // namespace

std::shared_ptr<PeriodicAction> make_early_stopping(std::function<StopReason()> predicate,
                                                    const Every& every, const Clock& clock) {
  if (!predicate) {
    throw ConfigError("early stopping was given no predicate.",
                      "give a function that returns the reason to stop, or nothing.");
  }
  return std::make_shared<EarlyStopping>(std::move(predicate), every, clock);
}

std::shared_ptr<PeriodicAction> make_early_stopping(StopRule rule, std::string directory,
                                                    const Every& every, const Clock& clock) {
  return make_early_stopping(
      [rule = std::move(rule), directory = std::move(directory)] {
        return stop_reason(rule, read_scalars(directory));
      },
      every, clock);
}

}  // namespace troupe
