#include "troupe/train/callbacks/early_stopping.h"

#include <utility>

#include "troupe/core/error.h"
#include "troupe/train/callbacks/step_timer.h"
#include "troupe/train/callbacks/stop_rules.h"

namespace troupe {
namespace {

class EarlyStopping final : public PeriodicAction {
 public:
  EarlyStopping(std::function<StopReason()> predicate, const Every& every, const Clock& clock)
      : predicate_(std::move(predicate)), timer_(every, clock, "early stopping") {}

  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { timer_.reset(); }
  void after_step(const StepReport& report, RunControl& run) override {
    if (!timer_.due(report.step)) return;
    timer_.mark(report.step);
    if (const StopReason reason = predicate_()) run.request_stop(*reason);
  }

 private:
  std::function<StopReason()> predicate_;
  StepTimer timer_;
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
