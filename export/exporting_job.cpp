#include "troupe/export/exporting_job.h"

#include <algorithm>
#include <exception>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/core/user_code.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

constexpr std::size_t kShown = 3;  // more failures than these are counted

/// The record of an evaluation that begins.
EvaluationRecord record_of(const std::string& checkpoint) {
  EvaluationRecord record;
  record.step = step_of(checkpoint.substr(checkpoint.rfind('/') + 1)).value_or(0);
  record.checkpoint = digest_of_checkpoint(checkpoint);
  return record;
}

}  // namespace

ExportingJob::ExportingJob(std::string model_dir, std::string evaluation_directory,
                           const std::vector<std::shared_ptr<Exporter>>& exporters)
    : model_dir_(std::move(model_dir)),
      evaluation_directory_(std::move(evaluation_directory)),
      exporters_(exporters),
      evaluations_(evaluation_directory_) {}

Evaluation ExportingJob::evaluate(const std::string& checkpoint) {
  const EvaluationRecord record = record_of(checkpoint);
  // Of the same checkpoint a process before this one may have written the summaries.
  const auto former = read_evaluation_record(evaluations_);
  const bool again =
      former && !former->checkpoint.empty() && former->checkpoint == record.checkpoint;
  write_evaluation_record(evaluations_, record);
  return evaluate_checkpoint(checkpoint, again);
}

std::optional<std::int64_t> ExportingJob::evaluated_step() {
  const auto record = read_evaluation_record(evaluations_);
  return record ? std::optional(record->step) : std::nullopt;
}

void ExportingJob::note_fresh(const std::string& checkpoint) {
  EvaluationRecord record = record_of(checkpoint);
  record.complete = true;
  write_evaluation_record(evaluations_, record);
}

std::vector<std::optional<std::string>> ExportingJob::export_models(const std::string& checkpoint,
                                                                    const Evaluation& evaluation,
                                                                    bool is_final) {
  EvaluationRecord record = record_of(checkpoint);
  record.is_final = is_final;
  std::vector<std::optional<std::string>> exports;
  for (const auto& exporter : exporters_) {
    ExportOffer offer;
    offer.export_directory = model_dir_ + "/export/" + exporter->name();
    offer.checkpoint = checkpoint;
    offer.checkpoint_digest = record.checkpoint;
    offer.evaluation = evaluation;
    offer.evaluation_directory = evaluation_directory_;
    offer.is_final = is_final;
    offer.write_model = model_writer(checkpoint, exporter->format());
    exports.push_back(run(*exporter, offer));
    const bool failed = failures_.count({evaluation.global_step, exporter->name()}) != 0;
    if (!failed) record.exporters.push_back(exporter->name());
  }
  record.complete = record.exporters.size() == exporters_.size();
  record.metrics = evaluation.metrics;
  record.exports = exports;
  write_evaluation_record(evaluations_, record);
  return exports;
}

std::optional<std::string> ExportingJob::run(Exporter& exporter, const ExportOffer& offer) {
  last_step_ = offer.evaluation.global_step;
  const std::pair key(last_step_, exporter.name());
  Failure failure;
  try {
    auto path = detail::in_user_code([&] { return exporter.offer(offer); },
                                     [] { return "Exporter::offer failed"; });
    failures_.erase(key);
    return path;
  } catch (const CheckpointError&) {
    throw;
  } catch (const Error& error) {
    failure = {error.cause(), error.fix()};
  } catch (const std::exception& error) {
    failure = {error.what(), ""};
  }
  log_error("the exporter '", key.second, "' failed at step ", key.first, ", which does not end ",
            "training: ", failure.cause, failure.fix.empty() ? "" : " Fix: ", failure.fix);
  failures_[key] = std::move(failure);
  return std::nullopt;
}

std::optional<std::string> ExportingJob::left_undone() {
  const auto record = read_evaluation_record(evaluations_);
  if (!record || record->complete || record->checkpoint.empty()) return std::nullopt;
  std::string path = model_dir_ + "/" + checkpoint_name(record->step);
  if (digest_of_checkpoint(path) != record->checkpoint) return std::nullopt;
  return path;
}

bool ExportingJob::is_settled(const std::string& checkpoint) {
  const auto record = read_evaluation_record(evaluations_);
  if (!record || !record->complete || !record->is_final || record->checkpoint.empty() ||
      record->checkpoint != digest_of_checkpoint(checkpoint)) {
    return false;
  }
  const auto& done = record->exporters;
  return std::all_of(exporters_.begin(), exporters_.end(), [&](const auto& exporter) {
    return std::find(done.begin(), done.end(), exporter->name()) != done.end();
  });
}

EvaluationRound ExportingJob::settled() {
  auto record = read_evaluation_record(evaluations_).value_or(EvaluationRecord());
  return {model_dir_ + "/" + checkpoint_name(record.step),
          {record.step, std::move(record.metrics)},
          std::move(record.exports),
          record.is_final};
}

void ExportingJob::throw_if_export_failed() const {
  if (failures_.empty()) return;
  std::vector<std::string> shown;
  for (const auto& [key, failure] : failures_) {
    if (shown.size() < kShown) shown.push_back(text("'", key.second, "' at step ", key.first));
  }
  std::string list = join(shown);
  if (failures_.size() > kShown) list += text(" and ", failures_.size() - kShown, " more");
  const auto& [newest, failure] = *failures_.rbegin();
  const char* const then =
      newest.first == last_step_
          ? "Then start the same command again: it exports the last checkpoint."
          : "Later checkpoints were exported; --mode export --checkpoint exports an earlier one "
            "that still exists.";
  throw ExportError(text("exports are missing, since exporters failed: ", list,
                         ". The newest reason: ", failure.cause),
                    text(failure.fix, failure.fix.empty() ? "" : " ", then));
}

}  // namespace troupe
