#include "troupe/train/callback_list.h"

#include <typeinfo>
#include <utility>
#include <vector>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/user_code.h"
#include "troupe/report/progress_sinks.h"
#include "troupe/report/summary_writer.h"
#include "troupe/train/callbacks/model_summaries.h"
#include "troupe/train/callbacks/progress_reporter.h"
#include "troupe/train/callbacks/step_log.h"
#include "troupe/train/callbacks/summary_saver.h"
#include "troupe/train/step_profile.h"

namespace troupe::detail {
namespace {

/// Calls each action, which may be the program's own.
template <class Call>
void call_each(const Actions& actions, const char* function, std::int64_t steps, Call&& call) {
  for (const auto& action : actions) {
    in_user_code([&] { call(*action); },
                 [&, &own = *action] {
                   return text("the callback ", name_of_type(typeid(own)), " failed in ", function,
                               " after ", steps, " steps of training");
                 });
  }
}

/// Losses, reports, speed and the model, for TensorBoard. All actions write to one file.
void add_summaries(Actions& actions, const TrainOptions& options, const StepRange& steps,
                   const Clock& clock) {
  // A resumed run forgets what an earlier one said of the steps that it takes again.
  const auto writer =
      std::make_shared<SummaryWriter>(options.model_dir, steps.first == 0 ? 0 : steps.first + 1);
  actions.push_back(std::make_shared<ModelSummaries>(
      writer, ModelSummaries::Intervals{options.save_summary_steps, options.save_histogram_steps,
                                        steps.last}));
  if (options.save_summary_steps == 0) return;
  const Every every = Every::n_steps(options.save_summary_steps);
  actions.push_back(std::make_shared<SummarySaver>(
      every,
      [writer](std::int64_t step, const std::vector<Scalar>& scalars) {
        writer->write(step, scalars);
      },
      clock, nullptr, steps.last));
  actions.push_back(std::make_shared<StepCounter>(
      every,
      [writer](std::int64_t step, double steps_per_second, double examples_per_second) {
        writer->write(
            step, {{"global_step/sec", steps_per_second}, {"examples/sec", examples_per_second}});
      },
      clock));
}

/// Null: none is asked for, or another worker has it.
std::unique_ptr<StatusServer> open_status_server(const Strategy& strategy,
                                                 const TrainOptions& options) {
  if (!options.status_port || !strategy.is_chief()) return nullptr;
  auto server = std::make_unique<StatusServer>(
      StatusServer::Place{options.status_address, *options.status_port},
      StatusServer::Run{options.model_dir, strategy.world_size()});
  // A warning, with a token: who reads this line can read the page.
  const bool loopback = options.status_address.empty();
  log(loopback ? LogLevel::info : LogLevel::warning, text("live page: ", server->url()));
  return server;
}

/// Whether the stock actions want the losses of this step; the same on every worker. `steps.first`
/// is the first that this run takes.
bool stock_wants_losses(const TrainOptions& options, std::int64_t step, const StepRange& steps) {
  const bool summarised =
      !options.model_dir.empty() && options.save_summary_steps > 0 &&
      (step == steps.last || is_summary_step(step, steps.first, options.save_summary_steps));
  return is_logged_step(step, step == steps.first, options.log_every) || summarised;
}

}  // namespace

CallbackList::CallbackList(Strategy& strategy, const TrainOptions& options, Actions given)
    : strategy_(strategy),
      options_(options),
      status_(open_status_server(strategy, options)),
      given_(std::move(given)) {
  for (const auto& action : given_) {
    if (strategy.is_chief() || !action->chief_only()) acting_.push_back(action);
  }
  call_each(acting_, "begin", 0, [](auto& action) { action.begin(); });
}

/// Log, metrics file, summaries, the screen and the live page.
Actions CallbackList::chiefs_actions(const StepRange& steps, const Clock& clock) {
  Actions stock = {std::make_shared<StepLog>(clock, options_.log_every, steps.unit)};
  if (!options_.metrics_file.empty()) {
    stock.push_back(std::make_shared<MetricsFile>(
        options_.metrics_file,
        steps.first > 0 ? MetricsFile::Open::append : MetricsFile::Open::anew, clock,
        options_.log_every));
  }
  const bool writes = options_.save_summary_steps > 0 || options_.save_histogram_steps > 0;
  if (!options_.model_dir.empty() && writes) add_summaries(stock, options_, steps, clock);
  std::vector<ProgressSink> sinks;
  if (auto sink = options_.progress ? terminal_sink() : nullptr) sinks.push_back(std::move(sink));
  if (status_) sinks.push_back([this](const Progress& progress) { status_->update(progress); });
  if (!sinks.empty()) {
    stock.push_back(std::make_shared<ProgressReporter>(strategy_.rank(), steps.last, steps.unit,
                                                       clock, std::move(sinks)));
  }
  return stock;
}

bool CallbackList::lead(const Clock& clock, RunControl& run) {
  if (std::exchange(leads_, true)) return false;
  status_ = open_status_server(strategy_, options_);
  Actions begun = chiefs_actions({run.step(), last_step_, unit_}, clock);
  acting_.insert(acting_.begin(), begun.begin(), begun.end());
  for (const auto& action : given_) {
    if (!action->chief_only()) continue;
    acting_.push_back(action);
    begun.push_back(action);
  }
  for (const auto& action : begun) action->begin();
  for (const auto& action : begun) action->ready(run);
  return true;
}

void CallbackList::complete_late(const StepRange& steps, const Clock& clock) {
  last_step_ = steps.last;
  unit_ = steps.unit;
  Actions stock;
  leads_ = strategy_.is_chief();
  if (leads_) stock = chiefs_actions(steps, clock);
  if (auto sink = options_.progress ? launcher_sink() : nullptr) {
    stock.push_back(std::make_shared<ProgressReporter>(strategy_.rank(), steps.last, steps.unit,
                                                       clock,
                                                       std::vector<ProgressSink>{std::move(sink)}));
  }
  for (const auto& action : stock) action->begin();
  acting_.insert(acting_.begin(), stock.begin(), stock.end());
  if (options_.profile_steps > 0) {
    // On every worker. Last: a step's interval holds what the other actions do after it.
    acting_.push_back(std::make_shared<StepProfile>(strategy_, options_));
  }
}

void CallbackList::complete(const StepRange& steps, const Clock& clock) {
  complete_late(steps, clock);
  // An action that only some workers have would make them exchange different messages.
  const auto counts = strategy_.gather(text(given_.size()));
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    if (counts[rank] == counts[0]) continue;
    throw ConfigError(
        text("rank ", rank, " has ", counts[rank], " actions, the chief ", counts[0], "."),
        "give every worker the same list; chief_only() says who acts.");
  }
}

void CallbackList::ready(RunControl& run) {
  seen_step_ = run.step();
  first_step_ = seen_step_ + 1;
  ready_ = true;
  call_each(acting_, "ready", seen_step_, [&](auto& action) { action.ready(run); });
}

void CallbackList::before_step(RunControl& run) {
  call_each(acting_, "before_step", seen_step_, [&](auto& action) { action.before_step(run); });
}

bool CallbackList::wants_losses(std::int64_t step) const {
  // If workers go at their own pace, numbers skip: those between were other workers'. An action
  // that wants one of them gets this step's losses.
  for (std::int64_t number = seen_step_ + 1; number <= step; ++number) {
    if (stock_wants_losses(options_, number, {first_step_, last_step_})) return true;
    for (const auto& action : given_) {
      if (action->wants_losses(number, number == first_step_)) return true;
    }
  }
  return false;
}

void CallbackList::after_step(const StepReport& report, RunControl& run) {
  call_each(acting_, "after_step", report.step,
            [&](auto& action) { action.after_step(report, run); });
  seen_step_ = report.step;
}

void CallbackList::before_validation() {
  call_each(acting_, "before_validation", seen_step_,
            [](auto& action) { action.before_validation(); });
}

void CallbackList::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  call_each(acting_, "after_epoch", seen_step_,
            [&](auto& action) { action.after_epoch(epoch, train, validation); });
}

void CallbackList::after_log(std::int64_t step, std::int64_t epoch, const std::string& name,
                             double value) {
  call_each(acting_, "after_log", seen_step_,
            [&](auto& action) { action.after_log(step, epoch, name, value); });
}

void CallbackList::end(RunControl& run) {
  if (!ready_) return;
  call_each(acting_, "end", seen_step_, [&](auto& action) { action.end(run); });
}

}  // namespace troupe::detail
