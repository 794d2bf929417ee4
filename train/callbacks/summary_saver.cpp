#include "train/callbacks/summary_saver.h"

#include <utility>

#include "summaries/summary_writer.h"

namespace troupe {
namespace {

Every checked_save_period(const Every& every) {
  every.validate("SummarySaver");
  return every;
}

}  // namespace

bool is_summary_step(std::int64_t step, std::int64_t first_step_of_run,
                     std::int64_t save_summary_steps) {
  return save_summary_steps > 0 && step >= first_step_of_run &&
         (step - first_step_of_run) % save_summary_steps == 0;
}

SummarySaver::SummarySaver(const Every& every, Sink sink, const Clock& clock, Extra extra)
    : every_(checked_save_period(every)),
      timer_(every, clock),
      sink_(std::move(sink)),
      extra_(std::move(extra)) {}

SummarySaver::SummarySaver(const Every& every, SummaryWriter& writer, const Clock& clock,
                           Extra extra)
    : SummarySaver(
          every,
          [&writer](std::int64_t step, const std::vector<Scalar>& scalars) {
            writer.write(step, scalars);
          },
          clock, std::move(extra)) {}

bool SummarySaver::wants_losses(std::int64_t step, bool first) const {
  return first || every_.seconds || is_summary_step(step, first_step_, *every_.steps);
}

void SummarySaver::ready(RunControl& run) { first_step_ = run.step() + 1; }

void SummarySaver::after_step(const StepReport& report, RunControl& run) {
  if (!run.is_chief() || !is_due(report.step)) return;
  timer_.mark(report.step);
  std::vector<Scalar> scalars;
  for (const auto& [name, value] : report.losses) scalars.push_back({name, value});
  if (report.learning_rate) scalars.push_back({"learning_rate", *report.learning_rate});
  if (extra_) {
    for (Scalar& scalar : extra_()) scalars.push_back(std::move(scalar));
  }
  if (!scalars.empty()) sink_(report.step, scalars);
}

bool SummarySaver::is_due(std::int64_t step) const {
  if (!every_.steps) return timer_.due(step);
  const auto last = timer_.last_step();
  if (!last || step == first_step_) return *every_.steps > 0 && step >= first_step_;
  // Where other workers take some of the steps, the first one after.
  return (step - first_step_) / *every_.steps > (*last - first_step_) / *every_.steps;
}

}  // namespace troupe
