// CallbackList: the actions of one run of training on this worker, in the order in which they are
// called: those that the options ask for (most on the chief alone), then the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/core/clock.h"
#include "troupe/core/options/train_options.h"
#include "troupe/report/outbox.h"
#include "troupe/report/status/status_server.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe::detail {

/// Where a run starts and where it would end, and what a pass over its data is called.
struct StepRange {
  std::int64_t begun_after = 0;
  std::int64_t last = 0;
  std::string unit = "epoch";
};

class CallbackList {
 public:
  /// All but `given` outlive it. Those of `given` that act on this worker begin, and the live page,
  /// if the options ask for it.
  /// Throws: EnvironmentError if its address cannot be listened on.
  CallbackList(Strategy& strategy, const TrainOptions& options, Outbox& outbox, Actions given);

  /// Once it is known where training starts and would end: the options' own actions begin. `clock`
  /// outlives this object. Collective: yes, but for a worker that has joined a run under way.
  /// Throws: ConfigError where workers have different lists.
  void complete(const StepRange& steps, const Clock& clock, bool has_joined);
  /// This worker is about to lead: what only the leader has begins, after `run`'s step.
  void lead(const Clock& clock, RunControl& run);

  /// The steps begin. Without this call end() does nothing.
  void ready(RunControl& run);
  void before_step(RunControl& run);
  /// Whether an action is to see the losses of this step; the same answer on every worker.
  [[nodiscard]] bool wants_losses(std::int64_t step) const;
  void after_step(const StepReport& report, RunControl& run);
  void before_validation();
  void after_epoch(std::int64_t epoch, const Report& train, const Report* validation);
  /// On the leader, and on those that may lead.
  void after_log(std::int64_t step, std::int64_t epoch, const std::string& name, double value);
  void end(RunControl& run);
  /// Once the last line of the run is written: open live pages are told the end. The last call.
  void close() { status_.reset(); }

 private:
  void begin_stock(const StepRange& steps, const Clock& clock, bool has_joined);
  [[nodiscard]] Actions make_reports(const StepRange& steps, const Clock& clock, bool has_joined);
  [[nodiscard]] Actions make_displays(const Clock& clock);
  void tell_leaders(const char* function, std::function<void(PeriodicAction&)> call);

  Strategy& strategy_;
  const TrainOptions& options_;
  Outbox& outbox_;
  std::unique_ptr<StatusServer> status_;  // on the chief, where options.status_port is set
  const Actions given_;                   // the user's, the same on every worker
  Actions acting_;                        // on this worker
  Actions reports_;                       // of these, what tells by the outbox
  Actions leaders_;                       // of these, what only the leader has; on others empty
  Outbox::Tell session_;                  // tells where the run's summaries begin; null: nowhere
  std::int64_t first_step_ = 1;           // of this run
  std::int64_t last_step_ = 0;            // if nobody stops it
  std::string unit_;                      // of the data
  std::int64_t seen_step_ = 0;            // the last one, or the one before the first
  bool ready_ = false;
};

}  // namespace troupe::detail
