// Best record: the file `best.json` beside the exports of a best exporter. It says which evaluation
// is to be beaten, so that a process that starts anew does not export a worse model.
// docs/export.md describes it.
#pragma once

#include <optional>
#include <string>

#include "core/file_system.h"
#include "estimator/roles/evaluation.h"

namespace troupe {

inline constexpr const char* kBestName = "best.json";

struct BestRecord {
  Evaluation evaluation;    // metrics by name
  std::string export_name;  // the export's directory, beside the file
};

/// The record at the root of `files`. Unset: there is none, or, with a warning, it is damaged.
[[nodiscard]] std::optional<BestRecord> read_best(FileSystem& files);

/// Replaces the record in one step; durable when it returns. Metrics may be infinite or NaN.
/// Throws: EnvironmentError.
void write_best(FileSystem& files, const BestRecord& record);

}  // namespace troupe
