// Summaries of the model itself, of this worker's first replica: learning rate, gradient norm,
// histograms of parameters and gradients, and what hooks and loop record.
#pragma once

#include <cstdint>
#include <memory>

#include "troupe/report/outbox.h"
#include "troupe/report/summary_writer.h"
#include "troupe/train/callbacks/callbacks.h"

namespace troupe {

/// On the chief alone: nothing here is collective, and nothing changes the model. Gradients are
/// those that the optimisers used last: summed over all replicas, with parameter servers over this
/// worker's.
class ModelSummaries final : public PeriodicAction {
 public:
  /// Steps between two summaries, from step 1 on, and the last; 0: none.
  struct Intervals {
    std::int64_t scalars = 0;
    std::int64_t histograms = 0;
    std::int64_t last_step = 0;
  };

  /// `outbox` outlives it.
  ModelSummaries(std::shared_ptr<SummaryWriter> writer, const Intervals& intervals, Outbox& outbox);
  void ready(RunControl& run) override;
  /// What validation recorded.
  void before_step(RunControl& run) override { write_recorded(seen_step_, run.replica()); }
  /// The host waits for the device at a summary step, to compute what was not computed anyway.
  void after_step(const StepReport& report, RunControl& run) override;
  void end(RunControl& run) override { write_recorded(seen_step_, run.replica()); }

 private:
  void prepare(RunControl& run) const;
  [[nodiscard]] bool is_due(std::int64_t every, std::int64_t step) const;
  void write_recorded(std::int64_t step, Replica& replica);
  void write_scalars(const StepReport& report, Replica& replica);
  void write_histograms(std::int64_t step, const Replica& replica);

  std::shared_ptr<SummaryWriter> writer_;
  const Intervals intervals_;
  Outbox& outbox_;
  std::int64_t seen_step_ = 0;  // the last one, or the one before the first
};

}  // namespace troupe
