// Leadership: which worker of a group saves and tells, and that nothing is lost with it. Workers
// agree by one all-reduce of StepFlags, which counts only if the leader has taken part. Where the
// leader was lost, the next one takes over what was saved and what is to be told, and the agreement
// is made again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "troupe/hooks/values.h"
#include "troupe/report/outbox.h"
#include "troupe/strategies/strategy.h"
#include "troupe/train/checkpoint/checkpointer.h"
#include "troupe/train/step_flags.h"
#include "troupe/train/straggler_watch.h"

namespace troupe::detail {

class Leadership {
 public:
  struct Events {
    std::function<void()> regrouped;  // workers of the group may be others now
    std::function<void()> leads;      // this worker is about to lead
  };
  /// Where the group has lost its leader and the next one has taken over, `ask` is called again.
  using Ask = std::function<StepFlags()>;

  /// All outlive it.
  Leadership(Strategy& strategy, Outbox& outbox, Events events)
      : strategy_(strategy),
        outbox_(outbox),
        events_(std::move(events)),
        is_known_(outbox.leads()) {}

  /// What the leader of the run writes. Null: nothing.
  void use(Checkpointer* checkpoints) { checkpoints_ = checkpoints; }

  /// Where this worker is the chief and has not led so far, it leads from now on.  Collective: no.
  void follow();
  /// The flags of all workers, added up. The chief warns of a worker that is slower than the
  /// others. Collective: yes.
  [[nodiscard]] StepFlags agree(const Ask& ask);
  /// Saves, and agrees. In an elastic group the files are written then, whoever is lost.
  /// Collective: yes.  Blocks: until the files are written, but for a periodic save of a group that
  /// is not elastic.
  StepFlags save(Checkpointer::Save which, const Ask& ask);
  /// As RunControl::waiting().
  [[nodiscard]] LossValues waiting() const {
    return stragglers_ ? stragglers_->waiting() : LossValues();
  }

 private:
  [[nodiscard]] StepFlags vote(StepFlags mine);
  [[nodiscard]] StepFlags sum(const StepFlags& mine);

  Strategy& strategy_;
  Outbox& outbox_;
  const Events events_;
  Checkpointer* checkpoints_ = nullptr;
  bool is_known_;                             // this worker leads, and the others know
  bool is_stopping_ = false;                  // by a signal
  std::optional<StragglerWatch> stragglers_;  // where workers take each step together
  std::int64_t met_at_ = 0;                   // nanoseconds, as trace_time(); 0: they have not met
  double waited_ = 0;                         // Pace::waited_seconds() then
};

}  // namespace troupe::detail
