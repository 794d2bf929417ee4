// How an export gets its directory, how old ones go, and which one is the best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/core/file_system.h"
#include "troupe/export/exporter_world.h"

namespace troupe {

/// Writes an export at the root of `files` (made where missing) and returns its path. A name that
/// is taken is followed by the next second's, waited for, ten times at most. What `write_model`
/// leaves behind when it throws is removed. Complete and durable when it returns. Throws:
/// EnvironmentError; what write_model throws.
std::string publish_export(FileSystem& files,
                           const std::function<void(const std::string&)>& write_model,
                           const WallSeconds& now = &wall_seconds, const Sleep& sleep = &sleep_for);

/// Exports at the root of `files`, by name, the oldest first; none where the root is missing.
/// Throws: EnvironmentError.
[[nodiscard]] std::vector<std::string> exports_in(FileSystem& files);

inline constexpr const char* kExportRecordName = "evaluation.json";

/// The file `evaluation.json` of an export that followed an evaluation: published with the model in
/// one step, so it is there exactly if the export is.
struct ExportRecord {
  std::string checkpoint_digest;  // digest_of_checkpoint
  Evaluation evaluation;          // metrics by name
};

/// Throws: EnvironmentError.
void write_export_record(const std::string& directory, const ExportRecord& record);
/// Of the export `name` at the root of `files`. Unset: it has none, or a damaged one.
[[nodiscard]] std::optional<ExportRecord> read_export_record(FileSystem& files,
                                                             const std::string& name);

/// At the root of `files`: removes all but the `keep` numerically largest directories whose names
/// are ten digits. Touches nothing else. One that cannot be removed is a warning.
void collect_old_exports(FileSystem& files, int keep);

inline constexpr const char* kBestName = "best.json";

/// The file `best.json` beside the exports of a best exporter. It says which evaluation is to be
/// beaten, so that a process that starts anew does not export a worse model. docs/export.md
/// describes it.
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
