#include "train/callbacks/early_stopping.h"

#include <utility>

#include "core/error.h"

namespace troupe {
namespace {

class EarlyStopping final : public PeriodicAction {
 public:
  EarlyStopping(StopPredicate predicate, const Every& every, const Clock& clock)
      : predicate_(std::move(predicate)), timer_(every, clock) {}

  [[nodiscard]] bool chief_only() const override { return true; }
  void begin() override { timer_.reset(); }
  void after_step(const StepReport& report, RunControl& run) override {
    if (!timer_.due(report.step)) return;
    timer_.mark(report.step);
    if (const StopReason reason = predicate_()) run.request_stop(*reason);
  }

 private:
  StopPredicate predicate_;
  StepTimer timer_;
};

}  // namespace

std::shared_ptr<PeriodicAction> make_early_stopping(StopPredicate predicate, const Every& every,
                                                    const Clock& clock) {
  if (!predicate) {
    throw ConfigError("early stopping was given no predicate.",
                      "give a function that returns the reason to stop, or nothing.");
  }
  every.validate("early stopping");
  return std::make_shared<EarlyStopping>(std::move(predicate), every, clock);
}

}  // namespace troupe
