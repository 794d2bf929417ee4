#include "train/stock_actions.h"

#include <memory>

#include "summaries/summary_writer.h"
#include "train/callbacks/metrics_file.h"
#include "train/callbacks/progress_bar.h"
#include "train/callbacks/step_counter.h"
#include "train/callbacks/step_log.h"
#include "train/callbacks/summary_saver.h"

namespace troupe::detail {
namespace {

/// Losses and speed, for TensorBoard. Both actions write to one file.
void add_summaries(Actions& actions, const TrainOptions& options, const StepRange& steps,
                   const Clock& clock) {
  const Every every = Every::n_steps(options.save_summary_steps);
  // A resumed run forgets what an earlier one said of the steps that it takes again.
  const auto writer =
      std::make_shared<SummaryWriter>(options.model_dir, steps.first == 0 ? 0 : steps.first + 1);
  actions.push_back(std::make_shared<SummarySaver>(
      every,
      [writer](std::int64_t step, const std::vector<Scalar>& scalars) {
        writer->write(step, scalars);
      },
      clock));
  actions.push_back(std::make_shared<StepCounter>(
      every,
      [writer](std::int64_t step, double rate) {
        writer->write(step, {{"global_step/sec", rate}});
      },
      clock));
}

bool writes_summaries(const TrainOptions& options) {
  return !options.model_dir.empty() && options.save_summary_steps > 0;
}

}  // namespace

Actions stock_actions(const TrainOptions& options, const StepRange& steps, const Clock& clock) {
  Actions stock;
  if (options.progress && ProgressBar::has_terminal()) {
    stock.push_back(std::make_shared<ProgressBar>(steps.last, clock));
  }
  stock.push_back(std::make_shared<StepLog>(clock, options.log_every));
  if (!options.metrics_file.empty()) {
    stock.push_back(std::make_shared<MetricsFile>(
        options.metrics_file, steps.first > 0 ? MetricsFile::Open::append : MetricsFile::Open::anew,
        clock, options.log_every));
  }
  if (writes_summaries(options)) add_summaries(stock, options, steps, clock);
  return stock;
}

bool stock_wants_losses(const TrainOptions& options, std::int64_t step, std::int64_t first_step) {
  const bool summarised =
      writes_summaries(options) && is_summary_step(step, first_step, options.save_summary_steps);
  return is_logged_step(step, step == first_step, options.log_every) || summarised;
}

}  // namespace troupe::detail
