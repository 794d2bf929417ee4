#include "troupe/export/export_directory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "troupe/core/check.h"
#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

constexpr int kMaxWaits = 10;  // Estimator's number
constexpr std::size_t kNameDigits = 10;
constexpr const char* kTemporary = "temp-";
constexpr const char* kRemoved = "temp-removed-";

/// Calls `act`; what the file system refuses it, which is no checkpoint here, is an
/// EnvironmentError.
template <class Act>
auto on_files(const Act& act) {
  try {
    return act();
  } catch (const CheckpointError& error) {
    throw EnvironmentError(error.cause(), error.fix());
  }
}

void remove_tree(FileSystem& files, const std::string& path) {
  for (const DirectoryEntry& entry : files.list(path)) {
    const std::string below = path + "/" + entry.name;
    if (entry.type == FileType::directory) {
      remove_tree(files, below);
    } else {
      files.remove_file(below);
    }
  }
  files.remove_directory(path);
}

/// Content before names, so that a directory never survives without what is in it.
void sync_tree(FileSystem& files, const std::string& path) {
  for (const DirectoryEntry& entry : files.list(path)) {
    const std::string below = path + "/" + entry.name;
    if (entry.type == FileType::directory) sync_tree(files, below);
    if (entry.type == FileType::file) files.sync_file(below);
  }
  files.sync_directory(path);
}

/// What was not published must not stay; the failure that led here is what is reported.
void remove_or_warn(FileSystem& files, const std::string& temporary) {
  try {
    remove_tree(files, temporary);
  } catch (const CheckpointError& error) {
    log_warning("an export that failed leaves '", files.shown(temporary), "': ", error.what());
  }
}

/// Makes the temporary directory of `name`, which is this process's from then on. False: another
/// export has the name.
bool claim(FileSystem& files, const std::string& name) {
  const std::string temporary = kTemporary + name;
  try {
    files.create_directory(temporary);
  } catch (const CheckpointError&) {
    if (files.status(temporary) || files.status(name)) return false;
    throw;
  }
  // Looked at afterwards: whoever held the temporary name before may have published by now.
  try {
    if (!files.status(name)) return true;
    files.remove_directory(temporary);
    return false;
  } catch (const CheckpointError&) {
    remove_or_warn(files, temporary);
    throw;
  }
}

std::string claim_name(FileSystem& files, const WallSeconds& now, const Sleep& sleep) {
  std::string name = text(now());
  for (int waits = 0; !claim(files, name); ++waits) {
    if (waits == kMaxWaits) {
      throw EnvironmentError(text("no name is free for an export in '", files.shown(""), "': '",
                                  name, "' is taken, as were the ", kMaxWaits, " before."),
                             "let one process export there, and check the machine's clock.");
    }
    sleep(Seconds(1));
    name = text(now());
  }
  return name;
}

using nlohmann::json;

/// What a record says besides "step" and "metrics".
struct RecordKind {
  const char* format;
  const char* of_what;
  const char* key;      // of its text
  bool names_file;      // the text does
  const char* ignored;  // what follows from a damaged one
};
constexpr RecordKind kOfBest = {"troupe-best-export", "a best export", "export", true,
                                "does not say which export is the best, the exports are asked"};
constexpr RecordKind kOfExport = {"troupe-exported-evaluation", "an exported evaluation",
                                  "checkpoint", false, "is ignored"};
using Record = std::pair<std::string, Evaluation>;  // the text, and the rest
constexpr int kVersion = 1;
constexpr const char* kTemporaryName = "temp-best.json";
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;

// JSON has no such numbers.
constexpr const char* kNaN = "NaN";
constexpr const char* kInfinity = "Infinity";
constexpr const char* kMinusInfinity = "-Infinity";

[[noreturn]] void refuse(const std::string& what) {
  throw CheckpointError(text("it ", what, "."), "");
}

json to_json(double value) {
  if (std::isnan(value)) return kNaN;
  if (std::isinf(value)) return value > 0 ? kInfinity : kMinusInfinity;
  return value;
}

double to_value(const std::string& name, const json& value) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == kNaN) return std::numeric_limits<double>::quiet_NaN();
  if (value == kInfinity) return kInf;
  if (value == kMinusInfinity) return -kInf;
  refuse(text("has no number at '", name, "'"));
}

std::int64_t to_step(const json& value) {
  constexpr auto kMax = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  // What the parser finds without a sign is unsigned.
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) refuse("has no valid step");
  return value.get<std::int64_t>();
}

Evaluation to_evaluation(const json& document) {
  const json metrics = document.value("metrics", json());
  if (!metrics.is_object()) refuse("has no valid 'metrics'");
  Evaluation evaluation;
  evaluation.global_step = to_step(document.value("step", json()));
  for (const auto& [metric, value] : metrics.items()) {
    evaluation.metrics.emplace_back(metric, to_value(metric, value));
  }
  return evaluation;
}

std::string content_of(const RecordKind& kind, const Record& record, const std::string& shown) {
  const auto& [named, evaluation] = record;
  json document = {{"format", kind.format},
                   {"version", kVersion},
                   {kind.key, named},
                   {"step", evaluation.global_step},
                   {"metrics", json::object()}};
  for (const auto& [name, value] : evaluation.metrics) document["metrics"][name] = to_json(value);
  return exact_json(document, shown) + "\n";
}

/// Unset: there is none, or, with a warning, it is damaged.
std::optional<Record> read_record(FileSystem& files, const std::string& path,
                                  const RecordKind& kind) {
  try {
    if (!files.status(path)) return std::nullopt;
    const json document = parse_strict_json(files.read_file(path, kMaxBytes), files.shown(path));
    if (!has_format(document, kind.format, kVersion)) {
      refuse(text("is no record of ", kind.of_what, ", version ", kVersion));
    }
    const json named = document.value(kind.key, json());
    if (!named.is_string() || (kind.names_file && !is_file_name(named.get<std::string>()))) {
      refuse(text("has no valid '", kind.key, "'"));
    }
    return Record(named.get<std::string>(), to_evaluation(document));
  } catch (const CheckpointError& error) {
    log_warning("'", files.shown(path), "' ", kind.ignored, ": ", error.cause());
    return std::nullopt;
  }
}

}  // namespace

std::string publish_export(FileSystem& files,
                           const std::function<void(const std::string&)>& write_model,
                           const WallSeconds& now, const Sleep& sleep) {
  TROUPE_CHECK(write_model != nullptr);
  const std::string name = on_files([&] {
    files.create_root();
    return claim_name(files, now, sleep);
  });
  const std::string temporary = kTemporary + name;
  try {
    write_model(files.shown(temporary));
    on_files([&] {
      sync_tree(files, temporary);
      files.rename(temporary, name);
    });
  } catch (...) {
    remove_or_warn(files, temporary);
    throw;
  }
  on_files([&] { files.sync_directory(""); });
  const auto names = exports_in(files);
  if (!names.empty() && names.back() != name) {
    log_warning("'", files.shown(names.back()), "' has a later name than this machine's clock ",
                "gives the new export, '", name,
                "', which therefore counts as older. Was the clock set?");
  }
  return files.shown(name);
}

void collect_old_exports(FileSystem& files, int keep) {
  TROUPE_CHECK(keep > 0);
  std::vector<std::string> names;
  try {
    names = exports_in(files);
  } catch (const EnvironmentError& error) {
    log_warning("old exports stay: ", error.what());
  }
  const std::size_t kept = std::min(names.size(), static_cast<std::size_t>(keep));
  names.resize(names.size() - kept);
  for (const std::string& name : names) {
    try {
      // Readers see the export whole or not at all, also after a loss of power.
      const std::string removed = kRemoved + name;
      files.rename(name, removed);
      files.sync_directory("");
      remove_tree(files, removed);
    } catch (const CheckpointError& error) {
      log_warning("the old export '", files.shown(name), "' was not removed: ", error.what());
    }
  }
}

std::vector<std::string> exports_in(FileSystem& files) {
  std::vector<std::string> names;
  on_files([&] {
    if (!files.status("")) return;
    for (const DirectoryEntry& entry : files.list("")) {
      if (entry.type == FileType::directory && entry.name.size() == kNameDigits &&
          entry.name.find_first_not_of("0123456789") == std::string::npos) {
        names.push_back(entry.name);
      }
    }
  });
  // Of equal length, digits have the order of their numbers.
  std::sort(names.begin(), names.end());
  return names;
}

void write_export_record(const std::string& directory, const ExportRecord& record) {
  on_files([&] {
    PosixFileSystem files(directory);
    const std::string content = content_of(kOfExport, {record.checkpoint_digest, record.evaluation},
                                           files.shown(kExportRecordName));
    const auto writer = files.create_file(kExportRecordName);
    writer->write(as_bytes(Span<const char>(content.data(), content.size())));
    writer->close();  // publish_export makes it durable
  });
}

std::optional<ExportRecord> read_export_record(FileSystem& files, const std::string& name) {
  const auto read = read_record(files, name + "/" + kExportRecordName, kOfExport);
  return read ? std::optional(ExportRecord{read->first, read->second}) : std::nullopt;
}

std::optional<BestRecord> read_best(FileSystem& files) {
  const auto read = read_record(files, kBestName, kOfBest);
  return read ? std::optional(BestRecord{read->second, read->first}) : std::nullopt;
}

void write_best(FileSystem& files, const BestRecord& record) {
  on_files([&] {
    replace_file(
        files, kBestName, kTemporaryName,
        content_of(kOfBest, {record.export_name, record.evaluation}, files.shown(kBestName)));
  });
}

}  // namespace troupe
