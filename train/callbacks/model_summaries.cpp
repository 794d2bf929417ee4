#include "troupe/train/callbacks/model_summaries.h"

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/core/failure.h"
#include "troupe/hooks/gradient_norm.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/train/callbacks/summary_saver.h"

namespace troupe {
namespace {

/// Of the first optimiser's first group; unset: its kind has none.
std::optional<double> learning_rate_of(Replica& replica) {
  const auto names = replica.optimizer_names();
  if (names.empty()) return std::nullopt;
  auto& groups = replica.optimizer(names.front()).param_groups();
  if (groups.empty()) return std::nullopt;
  try {
    return groups.front().options().get_lr();
  } catch (const c10::Error&) {  // the base class has none
    return std::nullopt;
  }
}

/// Before clipping. Unset: the optimiser has made no update yet, or none with a finite norm, or
/// other replicas have some of its gradients.
std::optional<double> gradient_norm_of(Replica& replica, const std::string& optimizer) {
  if (const auto clipped = replica.gradient_norm(optimizer)) return clipped;
  if (!detail::ReplicaDriver(replica).has_all_gradients(optimizer)) return std::nullopt;
  std::vector<NamedTensor> parameters;
  bool any = false;
  for (auto& group : replica.optimizer(optimizer).param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      any = any || parameter.grad().defined();
      parameters.emplace_back("", parameter);
    }
  }
  if (!any) return std::nullopt;
  try {
    return detail::gradient_norm(parameters);
  } catch (const NonFiniteError&) {  // finite values, whose squares are not
    return std::nullopt;
  }
}

Histogram histogram_of(const at::Tensor& tensor) {
  at::Tensor values = tensor.is_sparse() ? tensor.coalesce().values() : tensor;
  values = values.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  return make_histogram({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
}

}  // namespace

ModelSummaries::ModelSummaries(std::shared_ptr<SummaryWriter> writer, const Intervals& intervals,
                               Outbox& outbox)
    : writer_(std::move(writer)), intervals_(intervals), outbox_(outbox) {}

void ModelSummaries::ready(RunControl& run) {
  seen_step_ = run.step();
  prepare(run);
}

void ModelSummaries::after_step(const StepReport& report, RunControl& run) {
  write_recorded(report.step, run.replica());
  if (is_due(intervals_.scalars, report.step)) write_scalars(report, run.replica());
  if (is_due(intervals_.histograms, report.step)) write_histograms(report.step, run.replica());
  seen_step_ = report.step;
  prepare(run);
}

/// The next step tells the others what is needed of the updates after it.
void ModelSummaries::prepare(RunControl& run) const {
  if (outbox_.leads()) run.replica().recorder().open();
  bool keep = false;
  for (const std::int64_t step : {seen_step_ + 1, seen_step_ + 2}) {
    keep = keep || is_due(intervals_.scalars, step) || is_due(intervals_.histograms, step);
  }
  detail::ReplicaDriver(run.replica()).keep_gradients(keep);
}

void ModelSummaries::write_recorded(std::int64_t step, Replica& replica) {
  using detail::Recorded;
  for (const Recorded& each : replica.recorder().take()) {
    if (const auto* picture = std::get_if<Recorded::Picture>(&each.value)) {
      writer_->write_image(step, each.name, picture->png);
    } else if (const auto* spread = std::get_if<Recorded::Spread>(&each.value)) {
      writer_->write_histogram(step, each.name, histogram_of(spread->values));
    } else {
      writer_->write_text(step, each.name, std::get<std::string>(each.value));
    }
  }
}

/// Where other workers take some of the steps, the first one after.
bool ModelSummaries::is_due(std::int64_t every, std::int64_t step) const {
  if (every == 0) return false;
  return step == intervals_.last_step || is_summary_step(step, every, step - seen_step_);
}

void ModelSummaries::write_scalars(const StepReport& report, Replica& replica) {
  const torch::NoGradGuard no_grad;
  std::vector<Scalar> scalars;
  // Of a scheduled one SummarySaver writes what the step used.
  if (!report.learning_rate) {
    if (const auto rate = learning_rate_of(replica)) scalars.push_back({"learning_rate", *rate});
  }
  const auto optimizers = replica.optimizer_names();
  for (const std::string& name : optimizers) {
    const auto norm = gradient_norm_of(replica, name);
    const std::string tag = optimizers.size() == 1 ? "gradient_norm" : "gradient_norm/" + name;
    if (norm) scalars.push_back({tag, *norm});
  }
  if (scalars.empty()) return;
  outbox_.add([writer = writer_, step = report.step, scalars](bool again) {
    writer->write(step, scalars, again);
  });
}

void ModelSummaries::write_histograms(std::int64_t step, const Replica& replica) {
  const torch::NoGradGuard no_grad;
  const auto tell = [&](std::string tag, Histogram histogram) {
    outbox_.add([writer = writer_, step, tag = std::move(tag), histogram = std::move(histogram)](
                    bool again) { writer->write_histogram(step, tag, histogram, again); });
  };
  for (const auto& [name, parameter] : replica.parameters()) {
    tell("parameters/" + name, histogram_of(parameter));
    const at::Tensor& gradient = parameter.grad();
    if (gradient.defined()) tell("gradients/" + name, histogram_of(gradient));
  }
}

}  // namespace troupe
