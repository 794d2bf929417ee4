#include "troupe/train/run_record.h"

#include <torch/version.h>

#include <exception>
#include <limits>
#include <utility>

#include "troupe/core/failure.h"
#include "troupe/core/file_system.h"
#include "troupe/core/log.h"
#include "troupe/core/machine.h"
#include "troupe/core/text.h"
#include "troupe/core/version.h"
#include "troupe/hooks/replica_driver.h"
#include "troupe/strategies/pace.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"
#include "troupe/train/model_summary.h"

namespace troupe::detail {
namespace {

using nlohmann::ordered_json;

ordered_json parameters_of(const TrainState& state) {
  ordered_json parameters = ordered_json::array();
  for (const ParameterRow& row : parameter_rows(*state.replicas.front())) {
    if (row.is_buffer) continue;
    parameters.push_back(
        {{"name", row.name}, {"shape", row.shape}, {"count", row.count}, {"trained", row.trained}});
  }
  return parameters;
}

ordered_json metrics_of(const TrainState& state) {
  ordered_json metrics = ordered_json::array();
  const MetricSet& all = ReplicaDriver(*state.replicas.front()).metrics(Phase::validation);
  for (const auto& [name, better] : all.better()) {
    const char* const way = better == Better::lower    ? "lower"
                            : better == Better::higher ? "higher"
                                                       : "";
    metrics.push_back({{"name", name}, {"better", way}});
  }
  return metrics;
}

/// "worker/2 at step 700" as a task and a step; unset: another text.
std::optional<std::pair<std::string, std::int64_t>> lost_of(const std::string& line) {
  const std::string between = " at step ";
  const auto at = line.find(between);
  if (at == std::string::npos) return std::nullopt;
  try {
    return std::make_pair(line.substr(0, at), std::stoll(line.substr(at + between.size())));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

ordered_json end_of(std::int64_t step, const std::string& reason, int exit_code,
                    const LossValues& waiting = {}) {
  ordered_json fields = {{"step", step}, {"reason", reason}, {"exit_code", exit_code}};
  if (!waiting.empty()) fields["waiting"] = json_of(waiting);
  return fields;
}

}  // namespace

RunRecord::RunRecord(Strategy& strategy, const TrainOptions& options, Outbox& outbox)
    : options_(options), outbox_(outbox), origin_(options.origin ? *options.origin : RunOrigin()) {
  if (options.model_dir.empty() || !outbox.may_lead() || !strategy.pace().coordinates()) return;
  journal_.emplace(options.model_dir);
  tasks_ = strategy.pace().tasks();
}

void RunRecord::start(const Strategy& strategy, const TrainState& state, std::int64_t last_step,
                      const std::string& unit) {
  if (!journal_) return;
  if (outbox_.leads()) PosixFileSystem(options_.model_dir).create_root();
  ordered_json fields = {{"step", state.step},   {"program", origin_.program},
                         {"mode", origin_.mode}, {"strategy", strategy.name()},
                         {"tasks", tasks_},      {"replicas", strategy.view().replicas_in_sync()},
                         {"unit", unit},         {"generation", options_.generation}};
  if (last_step != std::numeric_limits<std::int64_t>::max()) fields["total_steps"] = last_step;
  const Machine machine = inspect_machine();
  fields["machine"] = {{"name", machine.name},
                       {"cores_usable", machine.cores.usable},
                       {"cores_online", machine.cores.online},
                       {"memory_bytes", machine.memory_bytes},
                       {"cpu_capability", machine.cpu_capability},
                       {"blas", name_of(machine.blas.kind)}};
  fields["versions"] = {
      {"troupe", kVersion}, {"libtorch", TORCH_VERSION}, {"compiler", __VERSION__}};
  fields["settings"] = ordered_json::array();
  for (const auto& [name, value, source] : origin_.settings)
    fields["settings"].push_back({{"name", name}, {"value", value}, {"source", source}});
  fields["parameters"] = parameters_of(state);
  fields["metrics"] = metrics_of(state);
  add("start", fields);
  const std::lock_guard<std::mutex> lock(mutex_);
  started_ = true;
  write_early();
}

void RunRecord::write_early() {
  for (const ordered_json& save : early_) write("save", save, /*again=*/save["seconds"].is_null());
  early_.clear();
}

void RunRecord::changed(std::int64_t step, const GroupChange& change) {
  for (const std::string& task : change.left) {
    add("lost",
        {{"step", step}, {"task", task}, {"reason", change.cause}, {"seconds", change.seconds}});
  }
  for (const std::string& task : change.came)
    add("joined", {{"step", step}, {"task", task}, {"seconds", change.seconds}});
}

std::function<void(std::int64_t, std::optional<double>)> RunRecord::on_saved() {
  if (!journal_) return nullptr;
  return [this](std::int64_t step, std::optional<double> seconds) {
    ordered_json fields = {
        {"step", step}, {"checkpoint", checkpoint_name(step)}, {"seconds", nullptr}};
    if (seconds) fields["seconds"] = *seconds;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(saved_, step) == step) return;
    if (started_) {
      write("save", fields, /*again=*/!seconds);
    } else {
      early_.push_back(fields);
    }
  };
}

void RunRecord::ended(std::int64_t step, const History& history, const std::string& facts) {
  const auto counted = ordered_json::parse(facts, nullptr, /*allow_exceptions=*/false);
  if (counted.is_object() && counted.contains("lost")) {
    for (const auto& line : counted["lost"]) {
      const auto lost = lost_of(line.get<std::string>());
      if (lost) {
        add("lost", {{"step", lost->second},
                     {"task", lost->first},
                     {"reason", "the parameter servers lost it; training continued without it"}});
      }
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    write_early();  // of a run that had nothing left to train
  }
  add("end", end_of(step, history.reason, 0, history.waiting));
}

void RunRecord::failed(std::int64_t step) noexcept {
  try {
    throw;
  } catch (const PeerLost& error) {
    for (const std::string& task : tasks_) {
      const std::string gone = task + " is gone: ";  // as distributed/membership says it
      if (error.cause().rfind(gone, 0) != 0) continue;
      const std::string reason = error.cause().substr(gone.size());
      if (outbox_.leads()) write("lost", {{"step", step}, {"task", task}, {"reason", reason}});
    }
    write_end(step, error.cause(), error.exit_code());
  } catch (const Error& error) {
    write_end(step, error.cause(), error.exit_code());
  } catch (const std::exception& error) {
    const std::string message = error.what();
    write_end(step, message.substr(0, message.find('\n')), kExitFailed);
  } catch (...) {
    write_end(step, "an exception that is not a std::exception", kExitFailed);
  }
}

void RunRecord::left(std::int64_t step, const std::string& how) noexcept {
  write_end(step, how, kExitFailed);
}

void RunRecord::write_end(std::int64_t step, const std::string& reason, int exit_code) noexcept {
  if (started_ && outbox_.leads()) write("end", end_of(step, reason, exit_code));
}

void RunRecord::add(const char* event, const ordered_json& fields) {
  if (!journal_) return;
  outbox_.add([this, event, fields](bool again) { write(event, fields, again); });
}

void RunRecord::write(const char* event, const ordered_json& fields, bool again) noexcept {
  if (!journal_ || broken_) return;
  try {
    journal_->write(event, fields, again);
  } catch (const std::exception& error) {
    broken_ = true;
    log_warning("the run's journal ends here: ", error.what());
  }
}

}  // namespace troupe::detail
