// Evaluation record: the file `evaluated.json` beside an evaluation's event files. It says how far
// the last evaluation that train_and_evaluate made has come, so that what a killed process left
// undone is made good at the next start, and what is done is not done again. The event files cannot
// say it: --mode evaluate writes them too, and they are written before the exporters run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/file_system.h"

namespace troupe {

inline constexpr const char* kEvaluationRecordName = "evaluated.json";

struct EvaluationRecord {
  std::int64_t step = 0;
  std::string checkpoint;  // digest_of_checkpoint
  /// The evaluation was written and every exporter has decided; unset until then, and if an
  /// exporter failed.
  bool complete = false;
  bool is_final = false;               // the exporters were told so
  std::vector<std::string> exporters;  // that have decided, by name
  /// What it came to, for a process that has to report it and did not make it: the metrics, and
  /// what each exporter returned.
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::optional<std::string>> exports;
};

/// The record at the root of `files`. Unset: there is none, or, with a warning, it is damaged.
[[nodiscard]] std::optional<EvaluationRecord> read_evaluation_record(FileSystem& files);

/// Makes the root and replaces the record in one step, durably. A failure is a warning: at worst
/// the evaluation is repeated by the next start.
void write_evaluation_record(FileSystem& files, const EvaluationRecord& record);

/// Tells a checkpoint from another one of the same step: the digest of its manifest. `path` is its
/// directory. "": it cannot be read.
[[nodiscard]] std::string digest_of_checkpoint(const std::string& path);

}  // namespace troupe
