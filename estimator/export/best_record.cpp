#include "estimator/export/best_record.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "estimator/export/exporter_parts.h"
#include "train/checkpoint/checkpoint_manifest.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "troupe-best-export";
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

BestRecord to_record(const json& document) {
  if (!document.is_object() || document.value("format", json()) != kFormat ||
      document.value("version", json()) != kVersion) {
    refuse(text("is no record of a best export, version ", kVersion));
  }
  const json name = document.value("export", json());
  const json metrics = document.value("metrics", json());
  if (!name.is_string() || !is_file_name(name.get<std::string>()) || !metrics.is_object()) {
    refuse("has no valid 'export' and 'metrics'");
  }
  BestRecord record;
  record.export_name = name.get<std::string>();
  record.evaluation.global_step = to_step(document.value("step", json()));
  for (const auto& [metric, value] : metrics.items()) {
    record.evaluation.metrics.emplace_back(metric, to_value(metric, value));
  }
  return record;
}

}  // namespace

std::optional<BestRecord> read_best(FileSystem& files) {
  try {
    if (!files.status(kBestName)) return std::nullopt;
    return to_record(
        parse_strict_json(files.read_file(kBestName, kMaxBytes), files.shown(kBestName)));
  } catch (const CheckpointError& error) {
    log_warning("'", files.shown(kBestName), "' does not say which export is the best, the event ",
                "files are asked: ", error.cause());
    return std::nullopt;
  }
}

void write_best(FileSystem& files, const BestRecord& record) {
  json metrics = json::object();
  for (const auto& [name, value] : record.evaluation.metrics) metrics[name] = to_json(value);
  const json document = {{"format", kFormat},
                         {"version", kVersion},
                         {"step", record.evaluation.global_step},
                         {"export", record.export_name},
                         {"metrics", std::move(metrics)}};
  detail::on_files([&] {
    const std::string content = exact_json(document, files.shown(kBestName)) + "\n";
    replace_file(files, kBestName, kTemporaryName, content);
  });
}

}  // namespace troupe
