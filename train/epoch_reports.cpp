#include "troupe/train/epoch_reports.h"

#include "troupe/hooks/replica_driver.h"
#include "troupe/train/evaluate.h"

namespace troupe::detail {

void EpochReports::begin(std::int64_t epoch) {
  stage_ = Stage::open;
  has_begun_ = true;
  epoch_ = epoch;
  begun_at_ = clock_.now();
  validating_seconds_ = 0;
  validated_ = false;
}

void EpochReports::add(const std::vector<StepResult>& results, std::int64_t examples) {
  state_.epoch_loss.add(results, examples);
  history_.examples += examples;
  ++history_.steps;
}

void EpochReports::validated(const Report& report) {
  history_.validation = report;
  validated_ = true;
  validating_seconds_ += report.seconds;
}

void EpochReports::close(Extent unless_complete) {
  if (stage_ != Stage::open) return;
  const Extent extent = is_complete() ? Extent::complete : unless_complete;
  const double seconds = Seconds(clock_.now() - begun_at_).count() - validating_seconds_;
  history_.train = reduce_report(strategy_, state_, state_.epoch_loss, Phase::train);
  history_.train->seconds = seconds;
  history_.seconds += seconds;
  stage_ = Stage::closed;
  extent_ = extent;
  if (extent == Extent::part) return;
  state_.position = {epoch_ + 1, 0};
  state_.epoch_loss = {};
  for (auto& replica : state_.replicas) ReplicaDriver(*replica).metrics(Phase::train).reset();
  if (extent == Extent::complete) ++history_.epochs;
}

bool EpochReports::is_complete() const {
  if (stage_ == Stage::closed) return extent_ == Extent::complete;
  return stage_ == Stage::open && state_.position.at_end;
}

const Report* EpochReports::validation() const {
  return validated_ ? &*history_.validation : nullptr;
}

}  // namespace troupe::detail
