// ExportingJob: evaluates a checkpoint, offers it to the exporters, and keeps on record how far
// that came, so that a process that was killed in between leaves nothing behind that is never
// exported, and nothing is exported twice. An exporter that fails does not end training.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/core/file_system.h"
#include "troupe/export/exporter.h"
#include "troupe/train/evaluation/evaluation.h"
#include "troupe/train/evaluation/evaluation_job.h"
#include "troupe/train/evaluation/evaluation_record.h"

namespace troupe {

class ExportingJob : public EvaluationJob {
 public:
  /// `exporters` outlives it. `evaluation_directory`: of the evaluations' event files.
  ExportingJob(std::string model_dir, std::string evaluation_directory,
               const std::vector<std::shared_ptr<Exporter>>& exporters);

  [[nodiscard]] Evaluation evaluate(const std::string& checkpoint) final;
  std::vector<std::optional<std::string>> export_models(const std::string& checkpoint,
                                                        const Evaluation& evaluation,
                                                        bool is_final) final;
  [[nodiscard]] std::optional<std::string> left_undone() final;
  [[nodiscard]] std::optional<std::int64_t> evaluated_step() final;
  void note_fresh(const std::string& checkpoint) final;
  [[nodiscard]] bool is_settled(const std::string& checkpoint) final;
  /// What the last evaluation that was completed came to, whoever made it. Without metrics: that is
  /// not known.
  [[nodiscard]] EvaluationRound settled();

  /// At the end. Throws: ExportError that names the exporters that failed, and for which steps. One
  /// whose repetition for the same checkpoint succeeded has not.
  void throw_if_export_failed() const;

 private:
  /// Evaluates, and writes the summaries. `again`: a process that was lost may have written them.
  [[nodiscard]] virtual Evaluation evaluate_checkpoint(const std::string& checkpoint,
                                                       bool again) = 0;
  /// `format`: unset: what the job's options say.
  [[nodiscard]] virtual std::function<void(const std::string&)> model_writer(
      const std::string& checkpoint, std::optional<ExportFormat> format) = 0;
  /// Unset: the exporter chose not to, or failed. Throws: CheckpointError if the checkpoint cannot
  /// be read: then another one has to be offered.
  std::optional<std::string> run(Exporter& exporter, const ExportOffer& offer);

  struct Failure {
    std::string cause;
    std::string fix;
  };

  const std::string model_dir_;
  const std::string evaluation_directory_;
  const std::vector<std::shared_ptr<Exporter>>& exporters_;
  PosixFileSystem evaluations_;
  std::map<std::pair<std::int64_t, std::string>, Failure> failures_;  // by step and exporter
  std::int64_t last_step_ = 0;                                        // that was offered
};

}  // namespace troupe
