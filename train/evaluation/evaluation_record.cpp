#include "troupe/train/evaluation/evaluation_record.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "troupe/core/failure.h"
#include "troupe/core/log.h"
#include "troupe/core/sha256.h"
#include "troupe/core/strict_json.h"
#include "troupe/core/text.h"
#include "troupe/train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kEvaluationFormat = "troupe-evaluated";
constexpr int kRecordVersion = 1;
constexpr const char* kTemporaryRecord = ".troupe-evaluated.tmp";
constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 10;

EvaluationRecord parse_record(const json& document, const std::string& shown) {
  const auto require = [&](bool valid, const char* what) {
    if (valid) return;
    throw CheckpointError(text("'", shown, "' ", what, "."), "remove that file.");
  };
  require(has_format(document, kEvaluationFormat, kRecordVersion),
          "is no record of an evaluation, version 1");
  const json step = document.value("step", json());
  const json checkpoint = document.value("checkpoint", json());
  const json complete = document.value("complete", json());
  const json is_final = document.value("final", json());
  const json exporters = document.value("exporters", json());
  // A number above the signed range comes out below 0.
  require(step.is_number_integer() && step.get<std::int64_t>() >= 0, "has no valid 'step'");
  require(checkpoint.is_string(), "has no valid 'checkpoint'");
  require(complete.is_boolean() && is_final.is_boolean(), "has no valid 'complete' and 'final'");
  require(exporters.is_array(), "has no valid 'exporters'");
  EvaluationRecord record{step.get<std::int64_t>(),
                          checkpoint.get<std::string>(),
                          complete.get<bool>(),
                          is_final.get<bool>(),
                          {},
                          {},
                          {}};
  for (const json& name : exporters) {
    require(name.is_string(), "has no valid 'exporters'");
    record.exporters.push_back(name.get<std::string>());
  }
  // Records of before they were kept have neither.
  const json metrics = document.value("metrics", json::array());
  const json exports = document.value("exports", json::array());
  require(metrics.is_array() && exports.is_array(), "has no valid 'metrics' and 'exports'");
  for (const json& metric : metrics) {
    require(metric.is_array() && metric.size() == 2 && metric[0].is_string() &&
                (metric[1].is_number() || metric[1].is_null()),
            "has no valid 'metrics'");
    record.metrics.emplace_back(metric[0].get<std::string>(),
                                metric[1].is_null() ? std::nan("") : metric[1].get<double>());
  }
  for (const json& path : exports) {
    require(path.is_string() || path.is_null(), "has no valid 'exports'");
    record.exports.push_back(path.is_null() ? std::nullopt
                                            : std::optional(path.get<std::string>()));
  }
  return record;
}

}  // namespace

std::optional<EvaluationRecord> read_evaluation_record(FileSystem& files) {
  try {
    if (!files.status("") || !files.status(kEvaluationRecordName)) return std::nullopt;
    const std::string shown = files.shown(kEvaluationRecordName);
    return parse_record(
        parse_strict_json(files.read_file(kEvaluationRecordName, kMaxRecordBytes), shown), shown);
  } catch (const CheckpointError& error) {
    log_warning("the record of the last evaluation is ignored: ", error.cause());
    return std::nullopt;
  }
}

void write_evaluation_record(FileSystem& files, const EvaluationRecord& record) {
  json metrics = json::array();
  for (const auto& [name, value] : record.metrics)
    metrics.push_back({name, std::isfinite(value) ? json(value) : json()});
  json exports = json::array();
  for (const auto& path : record.exports) exports.push_back(path ? json(*path) : json());
  const json document = {
      {"format", kEvaluationFormat},     {"version", kRecordVersion},   {"step", record.step},
      {"checkpoint", record.checkpoint}, {"complete", record.complete}, {"final", record.is_final},
      {"exporters", record.exporters},   {"metrics", metrics},          {"exports", exports}};
  try {
    files.create_root();
    replace_file(files, kEvaluationRecordName, kTemporaryRecord,
                 exact_json(document, "the record of an evaluation") + "\n");
  } catch (const CheckpointError& error) {
    log_warning("the next start may repeat the evaluation of step ", record.step, ": ",
                error.cause());
  }
}

std::string digest_of_checkpoint(const std::string& path) {
  try {
    PosixFileSystem files(path);
    const auto bytes = files.read_file(kManifestName, kMaxManifestBytes);
    return sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const CheckpointError&) {
    return "";
  }
}

}  // namespace troupe
