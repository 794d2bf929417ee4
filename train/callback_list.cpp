#include "troupe/train/callback_list.h"

#include <optional>
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
void add_summaries(Actions& actions, const TrainOptions& options,
                   const std::shared_ptr<SummaryWriter>& writer, std::int64_t last_step,
                   const Clock& clock, Outbox& outbox) {
  actions.push_back(std::make_shared<ModelSummaries>(
      writer,
      ModelSummaries::Intervals{options.save_summary_steps, options.save_histogram_steps,
                                last_step},
      outbox));
  if (options.save_summary_steps == 0) return;
  const auto write = [writer, &outbox](std::int64_t step, const std::vector<Scalar>& scalars) {
    outbox.add([=](bool again) { writer->write(step, scalars, again); });
  };
  actions.push_back(std::make_shared<SummarySaver>(options.save_summary_steps, last_step, write));
  actions.push_back(std::make_shared<StepCounter>(
      options.save_summary_steps,
      [write](std::int64_t step, double steps_per_second, double examples_per_second) {
        write(step, {{"global_step/sec", steps_per_second}, {"examples/sec", examples_per_second}});
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

/// Whether the stock actions want the losses of this step; the same on every worker. `first`: of
/// this run.
bool stock_wants_losses(const TrainOptions& options, std::int64_t step, std::int64_t first,
                        std::int64_t last) {
  const bool summarised = !options.model_dir.empty() && options.save_summary_steps > 0 &&
                          (step == last || is_summary_step(step, options.save_summary_steps));
  return is_logged_step(step, step == first, options.log_every) || summarised;
}

}  // namespace

CallbackList::CallbackList(Strategy& strategy, const TrainOptions& options, Outbox& outbox,
                           Actions given)
    : strategy_(strategy),
      options_(options),
      outbox_(outbox),
      status_(open_status_server(strategy, options)),
      given_(std::move(given)) {
  for (const auto& action : given_) {
    if (strategy.is_chief() || !action->chief_only()) acting_.push_back(action);
  }
  call_each(acting_, "begin", 0, [](auto& action) { action.begin(); });
}

/// Log, metrics file and summaries: what the leader tells, and others that may lead keep.
Actions CallbackList::make_reports(const StepRange& steps, const Clock& clock, bool has_joined) {
  const auto log = std::make_shared<StepLog>(clock, outbox_, options_.log_every, unit_);
  Actions reports = {log};
  if (!options_.metrics_file.empty()) {
    using Open = MetricsFile::Open;
    reports.push_back(std::make_shared<MetricsFile>(
        options_.metrics_file,
        has_joined ? Open::later : (steps.begun_after > 0 ? Open::append : Open::anew), clock,
        outbox_, options_.log_every));
  }
  const bool writes = options_.save_summary_steps > 0 || options_.save_histogram_steps > 0;
  if (!options_.model_dir.empty() && writes) {
    const auto writer = std::make_shared<SummaryWriter>(options_.model_dir);
    // A run forgets what an earlier one said of the steps that it takes again. Whether there was
    // one is seen here: before the first step no leader has written anything.
    const std::int64_t first = steps.begun_after == 0 ? 0 : steps.begun_after + 1;
    if (!has_joined && (first > 0 || writer->has_lines()))
      session_ = [writer, first](bool again) { writer->begin_session(first, again); };
    add_summaries(reports, options_, writer, last_step_, clock, outbox_);
  }
  if (has_joined) log->join();
  return reports;
}

/// The screen and the live page. They show what is, and need no history.
Actions CallbackList::make_displays(const Clock& clock) {
  std::vector<ProgressSink> sinks;
  if (auto sink = options_.progress ? terminal_sink() : nullptr) sinks.push_back(std::move(sink));
  if (status_) sinks.push_back([this](const Progress& progress) { status_->update(progress); });
  if (sinks.empty()) return {};
  return {std::make_shared<ProgressReporter>(strategy_.rank(), last_step_, unit_, clock,
                                             std::move(sinks))};
}

void CallbackList::lead(const Clock& clock, RunControl& run) {
  status_ = open_status_server(strategy_, options_);
  leaders_ = make_displays(clock);
  acting_.insert(acting_.begin(), leaders_.begin(), leaders_.end());
  for (const auto& action : given_) {
    if (!action->chief_only()) continue;
    acting_.push_back(action);
    leaders_.push_back(action);
  }
  for (const auto& action : leaders_) action->begin();
  for (const auto& action : leaders_) action->ready(run);
}

void CallbackList::begin_stock(const StepRange& steps, const Clock& clock, bool has_joined) {
  last_step_ = steps.last;
  unit_ = steps.unit;
  first_step_ = steps.begun_after + 1;
  if (outbox_.may_lead()) reports_ = make_reports(steps, clock, has_joined);
  Actions shown;
  if (outbox_.leads()) shown = make_displays(clock);
  if (auto sink = options_.progress ? launcher_sink() : nullptr) {
    shown.push_back(std::make_shared<ProgressReporter>(strategy_.rank(), steps.last, steps.unit,
                                                       clock,
                                                       std::vector<ProgressSink>{std::move(sink)}));
  }
  acting_.insert(acting_.begin(), shown.begin(), shown.end());
  acting_.insert(acting_.begin(), reports_.begin(), reports_.end());
  if (options_.profile_steps > 0) {
    // On every worker. Last: a step's interval holds what the other actions do after it.
    acting_.push_back(std::make_shared<StepProfile>(strategy_, options_));
  }
}

void CallbackList::complete(const StepRange& steps, const Clock& clock, bool has_joined) {
  begin_stock(steps, clock, has_joined);
  if (has_joined) return;
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
  ready_ = true;
  call_each(acting_, "ready", seen_step_, [&](auto& action) { action.ready(run); });
}

void CallbackList::before_step(RunControl& run) {
  if (session_) outbox_.add(std::exchange(session_, nullptr));
  call_each(acting_, "before_step", seen_step_, [&](auto& action) { action.before_step(run); });
}

bool CallbackList::wants_losses(std::int64_t step) const {
  // If workers go at their own pace, numbers skip: those between were other workers'. An action
  // that wants one of them gets this step's losses.
  for (std::int64_t number = seen_step_ + 1; number <= step; ++number) {
    if (stock_wants_losses(options_, number, first_step_, last_step_)) return true;
    for (const auto& action : given_) {
      if (action->wants_losses(number, number == first_step_)) return true;
    }
  }
  return false;
}

/// What only the leader's actions do: the leader has done it, and the next one makes up for it.
void CallbackList::tell_leaders(const char* function, std::function<void(PeriodicAction&)> call) {
  if (outbox_.leads() || !outbox_.may_lead()) return;
  outbox_.add([this, function, steps = seen_step_, call = std::move(call)](bool /*again*/) {
    call_each(leaders_, function, steps, call);
  });
}

void CallbackList::after_step(const StepReport& report, RunControl& run) {
  const auto call = [report, &run](PeriodicAction& action) { action.after_step(report, run); };
  call_each(acting_, "after_step", report.step, call);
  tell_leaders("after_step", call);
  seen_step_ = report.step;
}

void CallbackList::before_validation() {
  call_each(acting_, "before_validation", seen_step_,
            [](auto& action) { action.before_validation(); });
}

void CallbackList::after_epoch(std::int64_t epoch, const Report& train, const Report* validation) {
  call_each(acting_, "after_epoch", seen_step_,
            [&](auto& action) { action.after_epoch(epoch, train, validation); });
  std::optional<Report> validated;
  if (validation != nullptr) validated = *validation;
  tell_leaders("after_epoch", [epoch, train, validated](PeriodicAction& action) {
    action.after_epoch(epoch, train, validated ? &*validated : nullptr);
  });
}

void CallbackList::after_log(std::int64_t step, std::int64_t epoch, const std::string& name,
                             double value) {
  const auto call = [=](PeriodicAction& action) { action.after_log(step, epoch, name, value); };
  if (outbox_.leads()) return call_each(acting_, "after_log", seen_step_, call);
  call_each(reports_, "after_log", seen_step_, call);
  tell_leaders("after_log", call);
}

void CallbackList::end(RunControl& run) {
  if (!ready_) return;
  const auto call = [&run](PeriodicAction& action) { action.end(run); };
  call_each(acting_, "end", seen_step_, call);
  tell_leaders("end", call);
}

}  // namespace troupe::detail
